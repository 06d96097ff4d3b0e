"""Internal names that other packages of the framework use. Any version may change them."""

from .budget import Account as Account
from .engines import chain_of as chain_of
from .price_lookup import cost_of_spent as cost_of_spent

"""The codec: the one place where values become JSON and JSON becomes values."""

from .forms import form_of as form_of
from .forms import forms_in as forms_in
from .json import JsonObject as JsonObject
from .json import JsonValue as JsonValue
from .json import check_depth as check_depth
from .json import dump_json as dump_json
from .json import find_json_object as find_json_object
from .json import is_array as is_array
from .json import is_object as is_object
from .json import json_changes as json_changes
from .json import parse_json as parse_json
from .reading import from_json as from_json
from .reading import from_plain as from_plain
from .writing import form_to_json as form_to_json
from .writing import forms_to_jsonl as forms_to_jsonl
from .writing import to_json as to_json
from .writing import to_jsonl as to_jsonl
from .writing import to_lines as to_lines
from .writing import to_plain as to_plain

"""The world of the help desk: four SQLite databases, a folder of documents, and services that read them.

The services have code names, as services in companies do. A description says which kind of key a service
takes, and nothing about what it answers: that can only be found out by trying.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from wesichain import ToolError, tool
from wesichain.errors import ToolErrorKind

COMPANIES = 60
ORDERS = 60
PARTS = 60
TOPICS = [
    "returns",
    "warranty",
    "travel",
    "holidays",
    "overtime",
    "laptops",
    "parking",
    "training",
    "visitors",
]
TOPICS += [
    "expenses",
    "passwords",
    "meetings",
    "gifts",
    "hardware",
    "refunds",
    "remote work",
    "sick leave",
    "backups",
]

# code name -> (database, the key that it takes, query); every query gives one value
SERVICES = {
    "amber": ("crm", "company", "SELECT account FROM companies WHERE name = ?"),
    "birch": (
        "billing",
        "account",
        "SELECT printf('%.2f', sum(amount)) FROM invoices WHERE account = ? AND NOT paid",
    ),
    "cobalt": ("billing", "account", "SELECT max(day) FROM payments WHERE account = ?"),
    "dune": ("billing", "invoice", "SELECT account FROM invoices WHERE number = ?"),
    "ember": ("crm", "account", "SELECT person FROM contacts WHERE account = ?"),
    "falcon": ("shipping", "order", "SELECT parcel FROM orders WHERE number = ?"),
    "garnet": ("shipping", "parcel", "SELECT city FROM parcels WHERE code = ?"),
    "heron": ("shipping", "parcel", "SELECT due FROM parcels WHERE code = ?"),
    "iris": ("shipping", "parcel", "SELECT carrier FROM parcels WHERE code = ?"),
    "jade": ("shipping", "carrier", "SELECT phone FROM carriers WHERE name = ?"),
    "kestrel": ("stock", "part", "SELECT sku FROM parts WHERE name = ?"),
    "larch": ("stock", "sku", "SELECT printf('%.2f', price) FROM items WHERE sku = ?"),
    "maple": ("stock", "sku", "SELECT supplier FROM items WHERE sku = ?"),
    "nickel": ("stock", "supplier", "SELECT city FROM suppliers WHERE id = ?"),
    "opal": ("crm", "company", "SELECT newsletter FROM companies WHERE name = ?"),
    "rowan": ("crm", "account", "SELECT rating FROM contacts WHERE account = ?"),
    "sable": ("shipping", "parcel", "SELECT weight || ' kg' FROM parcels WHERE code = ?"),
    "teal": ("stock", "sku", "SELECT stored || ' pieces' FROM items WHERE sku = ?"),
}
DOCUMENTS = {"pine": "topic", "quartz": "document"}  # find a document by its topic; read one by its code
KEYS = {
    "company": "company name",
    "account": "account (A1234)",
    "invoice": "invoice (I1234)",
    "order": "order (N123)",
    "parcel": "parcel (P12345)",
    "carrier": "carrier name",
    "part": "part name",
    "sku": "item (S123)",
    "supplier": "supplier (V12)",
    "topic": "topic",
    "document": "document (D12)",
}

FIRST = ["North", "South", "Blue", "Red", "Grand", "Silver", "Iron", "Bright", "Stone", "Green"]
LAST = ["Mills", "Works", "Foods", "Labs", "Press", "Tools"]
PEOPLE = [
    "Ada",
    "Bruno",
    "Clara",
    "Dmitri",
    "Elena",
    "Farid",
    "Greta",
    "Hugo",
    "Ines",
    "Jonas",
    "Kira",
    "Luis",
]
CITIES = [
    "Lyon",
    "Oslo",
    "Porto",
    "Turin",
    "Ghent",
    "Malmo",
    "Graz",
    "Brno",
    "Split",
    "Cork",
    "Delft",
    "Aarhus",
]
CARRIERS = ["Swift", "Anchor", "Pilot", "Comet", "Bridge"]
KINDS = ["valve", "pump", "motor", "filter", "gasket", "sensor", "switch", "bearing", "clamp", "hinge"]
SIZES = ["small", "large", "round", "flat", "steel", "brass"]


@dataclass(frozen=True, slots=True)
class World:
    """Where everything lies, and the services as tools."""

    folder: Path

    def ask(self, service: str, key: str) -> str:
        """What a service answers; a `ToolError` where it has no such key."""
        value = self._document(service, key) if service in DOCUMENTS else self._record(service, key)
        if value is None:
            raise ToolError(f"{service} has no record {key!r}", ToolErrorKind.NOT_FOUND)
        return value

    def tools(self) -> list[Callable[..., str]]:
        keys = {name: key for name, (_, key, _) in SERVICES.items()} | DOCUMENTS
        return [self._tool(name, key) for name, key in keys.items()]

    def _tool(self, name: str, key: str) -> Callable[..., str]:
        def service(key: str) -> str:
            return self.ask(name, key)

        return tool(name=name, description=f"Looks up by {KEYS[key]}.")(service)

    def _record(self, service: str, key: str) -> str | None:
        database, _, query = SERVICES[service]
        with closing(sqlite3.connect(f"file:{self.folder / database}.db?mode=ro", uri=True)) as connection:
            row = connection.execute(query, (key.strip(),)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def _document(self, service: str, key: str) -> str | None:
        key = key.strip()
        if service == "pine":
            found = [
                path for path in self.folder.glob("D*.txt") if path.read_text().startswith(f"About {key}:")
            ]
            return found[0].stem if found else None
        path = self.folder / f"{key}.txt"
        return path.read_text() if key.startswith("D") and key[1:].isdigit() and path.is_file() else None


def build(folder: Path) -> World:
    """Make the databases and documents; the same each time."""
    chance = random.Random(20)
    folder.mkdir(parents=True, exist_ok=True)
    accounts = [f"A{number}" for number in chance.sample(range(1000, 9999), COMPANIES)]
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    _fill(
        folder / "crm.db",
        {
            "companies (name, account, newsletter)": [
                (name, account, chance.choice(["yes", "no"]))
                for name, account in zip(names, accounts, strict=True)
            ],
            "contacts (account, person, rating)": [
                (account, chance.choice(PEOPLE), chance.choice(["good", "fair", "poor"]))
                for account in accounts
            ],
        },
    )
    invoices = [
        (f"I{5000 + 10 * row + part}", account, round(chance.uniform(20, 900), 2), part == 0)
        for row, account in enumerate(accounts)
        for part in range(3)
    ]
    payments = [(account, _day(chance)) for account in accounts for _ in range(2)]
    _fill(
        folder / "billing.db",
        {"invoices (number, account, amount, paid)": invoices, "payments (account, day)": payments},
    )
    parcels = [f"P{number}" for number in chance.sample(range(10_000, 99_999), ORDERS)]
    _fill(
        folder / "shipping.db",
        {
            "orders (number, parcel)": [(f"N{300 + row}", parcel) for row, parcel in enumerate(parcels)],
            "parcels (code, city, due, carrier, weight)": [
                (parcel, chance.choice(CITIES), _day(chance), chance.choice(CARRIERS), chance.randint(1, 30))
                for parcel in parcels
            ],
            "carriers (name, phone)": [(name, f"555-{chance.randint(1000, 9999)}") for name in CARRIERS],
        },
    )
    skus = [f"S{number}" for number in chance.sample(range(100, 999), PARTS)]
    suppliers = [f"V{number}" for number in range(10, 22)]
    _fill(
        folder / "stock.db",
        {
            "parts (name, sku)": list(
                zip((f"{size} {kind}" for kind in KINDS for size in SIZES), skus, strict=True)
            ),
            "items (sku, price, supplier, stored)": [
                (sku, round(chance.uniform(2, 90), 2), chance.choice(suppliers), chance.randint(0, 500))
                for sku in skus
            ],
            "suppliers (id, city)": list(zip(suppliers, CITIES, strict=True)),
        },
    )
    for row, topic in enumerate(TOPICS):
        days = chance.choice([7, 10, 14, 21, 28, 30, 45, 60, 90])
        text = f"About {topic}: requests are answered within {days} days."
        (folder / f"D{40 + row}.txt").write_text(text)
    return World(folder)


def _day(chance: random.Random) -> str:
    return f"2025-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"


def _fill(path: Path, tables: Mapping[str, Sequence[tuple[object, ...]]]) -> None:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, rows in tables.items():
            name, _, columns = table.partition(" ")
            marks = ", ".join("?" * (columns.count(",") + 1))
            connection.execute(f"CREATE TABLE {name} {columns}")
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", rows)

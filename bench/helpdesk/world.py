"""The world of the help desk: four SQLite databases, a folder of documents, and services that read them.

The services have code names, as services in companies do. A description says which kind of key a service
takes, and nothing about what it answers: that can only be found out by trying.
"""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wesichain import JsonTool, ToolError
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
    "maple": ("stock", "sku", "SELECT supplier FROM items WHERE sku = ?"),
    "heron": ("shipping", "parcel", "SELECT due FROM parcels WHERE code = ?"),
    "amber": ("crm", "company", "SELECT account FROM companies WHERE name = ?"),
    "nickel": ("stock", "supplier", "SELECT city FROM suppliers WHERE id = ?"),
    "cobalt": ("billing", "account", "SELECT max(day) FROM payments WHERE account = ?"),
    "dune": ("billing", "invoice", "SELECT account FROM invoices WHERE number = ?"),
    "garnet": ("shipping", "parcel", "SELECT city FROM parcels WHERE code = ?"),
    "kestrel": ("stock", "part", "SELECT sku FROM parts WHERE name = ?"),
    "birch": (
        "billing",
        "account",
        "SELECT printf('%.2f', sum(amount)) FROM invoices WHERE account = ? AND NOT paid HAVING count(*)",
    ),
    "jade": ("shipping", "carrier", "SELECT phone FROM carriers WHERE name = ?"),
    "larch": ("stock", "sku", "SELECT printf('%.2f', price) FROM items WHERE sku = ?"),
    "falcon": ("shipping", "order", "SELECT parcel FROM orders WHERE number = ?"),
    "iris": ("shipping", "parcel", "SELECT carrier FROM parcels WHERE code = ?"),
    "ember": ("crm", "account", "SELECT person FROM contacts WHERE account = ?"),
}
DOCUMENTS = {"quartz": "document", "pine": "topic"}  # read a document by its code; find one by its topic
KEYS = {
    "company": "company name",
    "account": "account A1234",
    "invoice": "invoice I1234",
    "order": "order N123",
    "parcel": "parcel P12345",
    "carrier": "carrier name",
    "part": "part name",
    "sku": "item S123",
    "supplier": "supplier V12",
    "topic": "topic",
    "document": "document D12",
}
NAME, CODE = r"^[^\d]+$", r"^[A-Z]\d+$"  # what a key looks like

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
    """Where everything lies."""

    folder: Path

    def ask(self, service: str, key: str) -> str:
        """What a service answers; a `ToolError` where it has no such key."""
        value = self._document(service, key) if service in DOCUMENTS else self._record(service, key)
        if value is None:
            raise ToolError(f"{service} has no record {key!r}", ToolErrorKind.NOT_FOUND)
        return value

    def _record(self, service: str, key: str) -> str | None:
        database, _, query = SERVICES[service]
        with closing(sqlite3.connect(f"file:{self.folder / database}.db?mode=ro", uri=True)) as connection:
            row = connection.execute(query, (key.strip(),)).fetchone()
        return None if row is None or row[0] is None else str(row[0])

    def _document(self, service: str, key: str) -> str | None:
        key = key.strip()
        if service == "pine":
            paths = self.folder.glob("D*.txt")
            return next((path.stem for path in paths if path.read_text().startswith(f"{key}: ")), None)
        path = self.folder / f"{key}.txt"
        is_code = key.startswith("D") and key[1:].isdigit()
        return path.read_text().partition(": ")[2] if is_code and path.is_file() else None


class Desk:
    """The services as tools, and a customer at a time, who sees every result and says which one was asked."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._wanted = ""
        self._down: Mapping[str, str] = {}

    def serve(self, wanted: str, *, down: Mapping[str, str] | None = None) -> None:
        """The next customer. `down` are services that fail now, each with the one that stands in for it."""
        self._wanted = wanted
        self._down = down or {}

    def tools(self) -> list[JsonTool]:
        keys = {name: key for name, (_, key, _) in SERVICES.items()} | DOCUMENTS
        return [self._tool(name, KEYS[key]) for name, key in keys.items()]

    def _tool(self, name: str, kind: str) -> JsonTool:
        def answer(args: Mapping[str, Any]) -> dict[str, str]:
            if name in self._down:
                raise ToolError(f"{name} is down", ToolErrorKind.UNAVAILABLE)
            acting = next((other for other, stand_in in self._down.items() if stand_in == name), name)
            value = self.world.ask(acting, args["key"])
            return {"result": value} | ({"customer": "That is it."} if value == self._wanted else {})

        pattern = CODE if any(char.isdigit() for char in kind) else NAME
        key = {"type": "string", "pattern": pattern}
        schema = {"type": "object", "properties": {"key": key}, "required": ["key"]}
        return JsonTool(name, kind, schema, answer)


def build(folder: Path) -> World:
    """Make the databases and documents; the same each time."""
    chance = random.Random(20)
    folder.mkdir(parents=True, exist_ok=True)
    accounts = [f"A{number}" for number in chance.sample(range(1000, 9999), COMPANIES)]
    names = [f"{first} {last}" for first in FIRST for last in LAST]
    _fill(
        folder / "crm.db",
        {
            "companies (name, account)": list(zip(names, accounts, strict=True)),
            "contacts (account, person)": [(account, chance.choice(PEOPLE)) for account in accounts],
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
            "parcels (code, city, due, carrier)": [
                (parcel, chance.choice(CITIES), _day(chance), chance.choice(CARRIERS)) for parcel in parcels
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
            "items (sku, price, supplier)": [
                (sku, round(chance.uniform(2, 90), 2), chance.choice(suppliers)) for sku in skus
            ],
            "suppliers (id, city)": list(zip(suppliers, CITIES, strict=True)),
        },
    )
    for row, topic in enumerate(TOPICS):
        days = chance.choice([7, 10, 14, 21, 28, 30, 45, 60, 90])
        (folder / f"D{40 + row}.txt").write_text(f"{topic}: {days} days")
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

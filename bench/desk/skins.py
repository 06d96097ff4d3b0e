"""The subjects of the worlds: words alone, no two subjects share one that a task could name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Skin:
    """The words of one subject."""

    name: str
    house: str
    person: str
    person_prefix: str
    credit: str  # the verb that puts money on an account
    slot: str
    length: str  # what a person's record has a length of
    job: str
    job_prefix: str
    subject: str  # what a job is found by
    schedule: str
    prepare: str
    release: str
    article: str
    places: tuple[str, ...]
    kinds: Mapping[str, str]  # two letters, the beginning of an article's code -> the kind's name
    form: str
    counters: tuple[str, ...]
    form_kinds: Mapping[str, str]
    given: tuple[str, ...]
    family: tuple[str, ...]
    towns: tuple[str, ...]
    subjects: tuple[str, ...]
    notes: tuple[str, ...]


LIBRARY = Skin(
    name="library",
    house="a public library",
    person="reader",
    person_prefix="RD",
    credit="credit_reader",
    slot="locker",
    length="visit",
    job="loan",
    job_prefix="LN",
    subject="title",
    schedule="plan_return",
    prepare="check_in",
    release="send_home",
    article="volume",
    places=("attic", "annex", "hall", "vault", "tower"),
    kinds={"MP": "map", "AT": "atlas", "FO": "folio", "GR": "score"},
    form="request",
    counters=("front", "music", "papers", "youth"),
    form_kinds={"RQ": "copy", "RX": "exchange", "RZ": "purchase"},
    given=("Agnes", "Bruno", "Clara", "Dieter", "Edith", "Franz", "Gerda", "Hugo"),
    family=("Abel", "Becker", "Cramer", "Dorn", "Ebert", "Falk"),
    towns=("Aldorf", "Birkenau", "Calden", "Dassel", "Eschen", "Forst"),
    subjects=("Night Train", "Salt Road", "Paper Moon", "Cold Spring", "Red Barn", "Iron Gate", "Quiet Sea"),
    notes=("card replaced", "asks for large print", "moved last week", "prefers evenings"),
)
HARBOUR = Skin(
    name="harbour",
    house="the harbour office of a small port",
    person="skipper",
    person_prefix="SK",
    credit="repay_skipper",
    slot="berth",
    length="stay",
    job="tow",
    job_prefix="TW",
    subject="vessel",
    schedule="book_tow",
    prepare="clear_channel",
    release="start_tow",
    article="crate",
    places=("pier", "quay", "dock", "jetty", "shed"),
    kinds={"CB": "cable", "HX": "hose", "KN": "net", "PL": "paint"},
    form="permit",
    counters=("customs", "pilot", "fishery", "safety"),
    form_kinds={"PM": "mooring", "PF": "fuel", "PS": "diving"},
    given=("Arne", "Birte", "Carsten", "Dagny", "Eskil", "Frida", "Gunnar", "Hilde"),
    family=("Aas", "Berg", "Dahl", "Eide", "Foss", "Hagen"),
    towns=("Askvoll", "Bremnes", "Drobak", "Egersund", "Farsund", "Grimstad"),
    subjects=("Albatross", "Bonita", "Corsair", "Dorothea", "Esmeralda", "Fulmar", "Galatea"),
    notes=("radio repaired", "wants a quiet place", "engine was changed", "pays by month"),
)
CLINIC = Skin(
    name="clinic",
    house="an animal clinic",
    person="owner",
    person_prefix="OW",
    credit="reimburse_owner",
    slot="kennel",
    length="appointment",
    job="operation",
    job_prefix="OP",
    subject="animal",
    schedule="fix_operation",
    prepare="run_bloodtest",
    release="begin_operation",
    article="medicine",
    places=("fridge", "cabinet", "cellar", "trolley", "safe"),
    kinds={"AB": "ointment", "VT": "vaccine", "SR": "syrup", "DZ": "powder"},
    form="certificate",
    counters=("lab", "reception", "ward", "pharmacy"),
    form_kinds={"CT": "travel", "CV": "breeding", "CE": "export"},
    given=("Alba", "Bastien", "Chloe", "Denis", "Elodie", "Fabien", "Gaelle", "Henri"),
    family=("Arnaud", "Blanc", "Colin", "Durand", "Fabre", "Girard"),
    towns=("Arles", "Beaune", "Cahors", "Dieppe", "Evreux", "Figeac"),
    subjects=("Biscuit", "Caramel", "Domino", "Filou", "Guizmo", "Pepper", "Truffle"),
    notes=("new address follows", "nervous in waiting room", "insurance changed", "call after six"),
)
THEATRE = Skin(
    name="theatre",
    house="a city theatre",
    person="patron",
    person_prefix="PT",
    credit="refund_patron",
    slot="seat",
    length="tour",
    job="rehearsal",
    job_prefix="RH",
    subject="play",
    schedule="set_rehearsal",
    prepare="light_stage",
    release="open_rehearsal",
    article="prop",
    places=("loft", "stage", "foyer", "garage", "studio"),
    kinds={"WG": "wig", "LM": "lamp", "MK": "mask", "FU": "chair"},
    form="voucher",
    counters=("box", "cloak", "group", "press"),
    form_kinds={"VC": "school", "VG": "gift", "VH": "staff"},
    given=("Anselmo", "Bianca", "Cosimo", "Donata", "Elio", "Fiorella", "Gino", "Ilaria"),
    family=("Amato", "Bruni", "Conti", "Esposito", "Ferri", "Gallo"),
    towns=("Assisi", "Bellagio", "Cremona", "Empoli", "Faenza", "Gubbio"),
    subjects=(
        "Winter Light",
        "Blue Door",
        "Last Guest",
        "Glass Hill",
        "Old Debt",
        "Two Sisters",
        "The Clerk",
    ),
    notes=("uses the side door", "wheelchair place needed", "subscription ended", "sits with friends"),
)
FARM = Skin(
    name="farm",
    house="a farm cooperative",
    person="grower",
    person_prefix="GW",
    credit="compensate_grower",
    slot="plot",
    length="training",
    job="harvest",
    job_prefix="HV",
    subject="field",
    schedule="date_harvest",
    prepare="grease_combine",
    release="launch_harvest",
    article="sack",
    places=("barn", "silo", "stable", "granary", "greenhouse"),
    kinds={"WT": "wheat", "BY": "barley", "OT": "oats", "RY": "lentils"},
    form="licence",
    counters=("seed", "water", "machine", "market"),
    form_kinds={"LW": "irrigation", "LG": "grazing", "LT": "spraying"},
    given=("Adrian", "Beata", "Cyril", "Danuta", "Emil", "Felicja", "Grzegorz", "Halina"),
    family=("Adamski", "Baran", "Czarny", "Dudek", "Filip", "Gorski"),
    towns=("Augustow", "Bielsko", "Chelm", "Debica", "Elblag", "Gniezno"),
    subjects=(
        "Long Acre",
        "Mill Meadow",
        "Fox Corner",
        "Stone Ridge",
        "East Hollow",
        "Bell Slope",
        "Crow Bank",
    ),
    notes=("gate was moved", "wants a later slot", "tractor was sold", "shares with a neighbour"),
)
COLLEGE = Skin(
    name="college",
    house="a sports college",
    person="student",
    person_prefix="ST",
    credit="credit_student",
    slot="badge",
    length="rope",
    job="lesson",
    job_prefix="LS",
    subject="course",
    schedule="plan_lesson",
    prepare="book_referee",
    release="open_lesson",
    article="trophy",
    places=("gym", "chapel", "lounge", "kitchen", "corridor", "library", "basement"),
    kinds={"SV": "silver", "BZ": "bronze", "GL": "glass", "WD": "wooden"},
    form="waiver",
    counters=("dean", "coach", "nurse", "bursar", "porter"),
    form_kinds={"WA": "rowing", "WB": "boxing", "WC": "fencing"},
    given=("Amara", "Benson", "Chidi", "Dayo", "Efua", "Femi", "Grace", "Haruna"),
    family=("Adeyemi", "Bello", "Danjuma", "Eze", "Fashola", "Gowon"),
    towns=("Abuja", "Benin", "Calabar", "Dutse", "Enugu", "Funtua"),
    subjects=(
        "Deep Water",
        "High Bar",
        "Slow Relay",
        "Long Vault",
        "Team Pursuit",
        "Open Ring",
        "Hill Sprint",
    ),
    notes=("new shoes", "late on Mondays", "plays two games", "left handed"),
)
MUSEUM = Skin(
    name="museum",
    house="a museum of crafts",
    person="lender",
    person_prefix="LE",
    credit="pay_lender",
    slot="tag",
    length="frame",
    job="viewing",
    job_prefix="VW",
    subject="collection",
    schedule="arrange_viewing",
    prepare="dim_lights",
    release="begin_viewing",
    article="exhibit",
    places=("rotunda", "gallery", "depot", "cloister", "pavilion", "atrium", "workshop"),
    kinds={"PO": "pottery", "TX": "textile", "JW": "jewel", "BK": "basket"},
    form="claim",
    counters=("curator", "registrar", "conservator", "guard", "archivist"),
    form_kinds={"KL": "transport", "KM": "moisture", "KN": "breakage"},
    given=("Akira", "Chiyo", "Daichi", "Emiko", "Fumio", "Goro", "Hanako", "Isamu"),
    family=("Abe", "Endo", "Fujita", "Goto", "Hayashi", "Ito"),
    towns=("Akita", "Beppu", "Chiba", "Fukui", "Gifu", "Hakone"),
    subjects=("Rain Bowls", "Snow Looms", "Crane Boxes", "Tide Fans", "Moss Cups", "Ash Combs", "Reed Mats"),
    notes=("prefers letters", "wants insurance", "abroad in June", "owns the house"),
)
AIRFIELD = Skin(
    name="airfield",
    house="a small airfield",
    person="flyer",
    person_prefix="FL",
    credit="remit_flyer",
    slot="stand",
    length="wingspan",
    job="flight",
    job_prefix="FT",
    subject="aircraft",
    schedule="plan_flight",
    prepare="sweep_runway",
    release="clear_flight",
    article="spare",
    places=("hangar", "apron", "container", "bunker", "shelter", "mezzanine", "carport"),
    kinds={"VL": "valve", "TY": "tyre", "FI": "filter", "GA": "gauge"},
    form="notice",
    counters=("meteo", "handling", "noise", "dispatch", "fuelling"),
    form_kinds={"NA": "gliding", "NB": "parachute", "NC": "drone"},
    given=("Aino", "Eero", "Helmi", "Ilmari", "Jukka", "Kaisa", "Lauri", "Marja"),
    family=("Aalto", "Harju", "Kallio", "Laine", "Mattila", "Niemi"),
    towns=("Espoo", "Hamina", "Imatra", "Joensuu", "Kotka", "Lahti"),
    subjects=("Swallow", "Kestrel", "Lapwing", "Merlin", "Osprey", "Plover", "Redwing"),
    notes=("licence renewed", "night rating", "shares a hangar", "keeps tools here"),
)
BREWERY = Skin(
    name="brewery",
    house="a brewery with inns",
    person="innkeeper",
    person_prefix="IK",
    credit="rebate_innkeeper",
    slot="cask",
    length="awning",
    job="delivery",
    job_prefix="DV",
    subject="tavern",
    schedule="set_delivery",
    prepare="load_wagon",
    release="send_delivery",
    article="parcel",
    places=("malthouse", "icehouse", "rack", "vat", "courtyard", "tunnel", "gatehouse"),
    kinds={"HP": "hops", "YS": "yeast", "ML": "malt", "LB": "label"},
    form="slip",
    counters=("excise", "tasting", "bottling", "cooper", "sales"),
    form_kinds={"SA": "deposit", "SB": "returns", "SC": "sampling"},
    given=("Alzbeta", "Bohumil", "Dana", "Frantisek", "Hynek", "Irena", "Jarmila", "Karel"),
    family=("Benes", "Cerny", "Dvorak", "Fiala", "Hajek", "Jelinek"),
    towns=("Beroun", "Cheb", "Decin", "Havirov", "Jihlava", "Kladno"),
    subjects=(
        "Golden Sheaf",
        "Three Stags",
        "White Lamb",
        "Black Bell",
        "Green Oak",
        "Lame Fox",
        "Tall Ship",
    ),
    notes=("closed on Sunday", "wants small kegs", "pays in cash", "new landlord"),
)
_ALL = (LIBRARY, HARBOUR, CLINIC, THEATRE, FARM, COLLEGE, MUSEUM, AIRFIELD, BREWERY)
SKINS = {skin.name: skin for skin in _ALL}

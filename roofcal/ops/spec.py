"""What an op declares about itself without torch: axes, recipes, providers, least work.

A folder `roofcal/ops/<folder>/` holds all of a concept: the op, the probe that calibrates its
model, and the parts that are found by their names: bench, model, fit (roofcal.ops.constants).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from roofcal.core.language_models import LanguageModel
from roofcal.core.recipes import Work

Shape = Mapping[str, int]
Backend = Literal["cuda", "cpu"]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpSpec:
    """One op of the study; `roofcal/ops/<name>/bench.py` runs it.

    role             probe: calibrates the device; study: judges the predictions
    axes             names of the sizes that make a shape, in their printed order
    recipes          names this op accepts
    providers        implementations per backend
    work             least work of (recipe, shape)
    regime           group in which errors are reported, from a shape
    layer_shape      shape of this op for a layer of n x k weights at a number of tokens, or None
    block_shape      shape of this op for a block of a language model, of (model, tokens, most
                     tokens of a sequence), or None; ValueError for a model without such a block
    baseline_recipe  recipe the others are compared with, or None
    written_recipe   name of a recipe that a person wrote down, as a mapping or as that name; raises
                     ValueError for one that makes no sense. None: `recipes` are all there are
    shared_axis      of an op that runs on several devices: the axis whose size they share out, so
                     that the world size divides it; None for an op of one device
    precompiled      providers whose kernels come with a library: no compiler is waited for
    partial          providers that run only a part of the op, so its least work is no roof
    computes         what a point is to models of time that know no op: a product of m, n and k,
                     or a cast of rows x cols; None for what is neither, or is made of several
    received_bytes   of an op that gathers: bytes that a device receives over its link, of
                     (provider, recipe, shape, world size); 0 for a provider that gathers nothing
    calibrates       of a probe that lives with the op whose model it calibrates: that op's name
    calibrated_on    probes whose constants its model reads, beside those of launches and streams
    shape_problem    why no provider runs a shape, as of sizes that do not fit together; None for a
                     shape of the op
    has_pair         whether a provider has a recipe, of (provider, recipe)
    size_multiples   axis -> number whose multiples alone a provider takes under a recipe, of
                     (provider, recipe); axes that it leaves out take any size
    least_sizes      axis -> smallest size that a provider takes under a recipe, of the same
    """

    name: str
    role: Literal["probe", "study"]
    axes: tuple[str, ...]
    recipes: tuple[str, ...]
    providers: Mapping[Backend, tuple[str, ...]]
    work: Callable[[str, Shape], Work]
    regime: Callable[[Shape], str]
    layer_shape: Callable[[int, int, int], Shape] | None = None
    block_shape: Callable[[LanguageModel, int, int], Shape] | None = None
    baseline_recipe: str | None = None
    written_recipe: Callable[[Mapping[str, Any] | str], str] | None = None
    shared_axis: str | None = None
    precompiled: tuple[str, ...] = ("cublaslt", "tinygemm", "torch_eager", "torch_cpu")
    partial: tuple[str, ...] = ()
    computes: Literal["product", "cast"] | None = None
    received_bytes: Callable[[str, str, Shape, int], float] | None = None
    calibrates: str | None = None
    calibrated_on: tuple[str, ...] = ()
    shape_problem: Callable[[Shape], str | None] = lambda _shape: None
    has_pair: Callable[[str, str], bool] = lambda _provider, _recipe: True
    size_multiples: Callable[[str, str], Mapping[str, int]] = lambda _provider, _recipe: {}
    least_sizes: Callable[[str, str], Mapping[str, int]] = lambda _provider, _recipe: {}

    @property
    def folder(self) -> str:
        """The folder of the op below roofcal/ops, which it may share with its probe."""
        return self.calibrates or self.name

    def work_of(self, provider: str, recipe: str, shape: Shape) -> Work:
        """Least work of a provider: of one that does a part alone, none is counted."""
        return Work() if provider in self.partial else self.work(recipe, shape)

    def has_recipe(self, name: str) -> bool:
        """Whether it is one of `recipes` or the name of one that was written down."""
        if name in self.recipes or self.written_recipe is None:
            return name in self.recipes
        try:
            return self.written_recipe(name) == name
        except ValueError:
            return False

    def refused_axes(
        self, provider: str, recipe: str, shape: Mapping[str, Any]
    ) -> dict[tuple[str, Literal["multiple", "least"]], Any]:
        """(axis, kind of its limit) -> whether its size breaks it, of every limit of a provider.

        shape: sizes by axis, or vectors of them; then the answers are vectors, too.
        """
        multiples, least = (f(provider, recipe) for f in (self.size_multiples, self.least_sizes))
        return {(a, "multiple"): shape[a] % multiple != 0 for a, multiple in multiples.items()} | {
            (a, "least"): shape[a] < size for a, size in least.items()
        }

    def takes(self, provider: str, recipe: str, shape: Shape) -> bool:
        """Whether a provider runs a shape, by `size_multiples` and `least_sizes`."""
        return not any(self.refused_axes(provider, recipe, shape).values())

    @property
    def every_provider(self) -> tuple[str, ...]:
        """Providers of any backend, each once."""
        return tuple(dict.fromkeys(name for names in self.providers.values() for name in names))

    def providers_on(self, backend: str) -> tuple[str, ...]:
        """Providers of a backend ("cuda" covers ROCm, as torch does)."""
        return self.providers.get(backend, ())  # type: ignore[call-overload, no-any-return]


class Unsupported(Exception):  # noqa: N818 (a state of a point, not an error of the program)
    """A provider refuses a recipe or shape; the message says which limit was met."""

"""Options about kernels, a group for the commands that train.

An option that would change nothing is refused: one without --kernel, or one that the kernel or the
approximation has no use for.  --seed is there for factors too; who makes settings of these options
sees whether anything is drawn at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from ranksvm.cli.grids import parse_number
from ranksvm.cli.options import by_default, value_of
from ranksvm.cli.output import UsageProblem

__all__ = ["KernelOptions", "kernel_options"]

_OF_KERNEL: dict[str, Any] = {"show_default": False, "rich_help_panel": "Kernel"}


class Kernel(StrEnum):
    """Kernels that can be computed from files of items."""

    rbf = "rbf"
    laplacian = "laplacian"
    poly = "poly"
    sigmoid = "sigmoid"
    linear = "linear"


class Approximation(StrEnum):
    """What stands for a kernel."""

    nystroem = "nystroem"
    fourier = "fourier"


class Landmarks(StrEnum):
    """Where Nystrom features come from."""

    uniform = "uniform"
    kmeans = "kmeans"
    leverage = "leverage"


class Precision(StrEnum):
    """Precision of stored kernel values."""

    float64 = "float64"
    float32 = "float32"


@dataclass(frozen=True)
class KernelOptions:
    """The kernel, under the names of the library; None where nothing was said."""

    kernel: str | None = None
    gamma: float | str | None = None
    degree: int | None = None
    coef0: float | None = None
    approximation: str | None = None
    n_components: int | None = None
    landmarks: str | None = None
    memory_budget: str | None = None
    dtype: str | None = None
    random_state: int | None = None


def kernel_options(
    kernel: Annotated[
        Kernel | None,
        typer.Option(help="Kernel; without it the model is linear.", **_OF_KERNEL),
    ] = None,
    gamma: Annotated[
        str | None,
        typer.Option(
            help=f"A number (0.1, 2^-5), scale or auto. {by_default('scale')}", **_OF_KERNEL
        ),
    ] = None,
    degree: Annotated[
        int | None, typer.Option(help=f"Degree of the poly kernel. {by_default(3)}", **_OF_KERNEL)
    ] = None,
    coef0: Annotated[
        float | None,
        typer.Option(help=f"Constant term of poly and sigmoid. {by_default(1)}", **_OF_KERNEL),
    ] = None,
    approximation: Annotated[
        Approximation | None,
        typer.Option(help="Approximate the kernel; exact without it.", **_OF_KERNEL),
    ] = None,
    components: Annotated[
        int | None,
        typer.Option(
            help=f"Number of landmarks or random features. {by_default(500)}", **_OF_KERNEL
        ),
    ] = None,
    landmarks: Annotated[
        Landmarks | None,
        typer.Option(help=f"How nystroem chooses landmarks. {by_default('uniform')}", **_OF_KERNEL),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help=f"Memory for kernel values or features. {by_default('4GB')}", **_OF_KERNEL
        ),
    ] = None,
    dtype: Annotated[
        Precision | None,
        typer.Option(
            help=f"Precision of stored kernel values. {by_default('float64')}", **_OF_KERNEL
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help=f"Random seed. {by_default(0)}",
            show_default=False,
            rich_help_panel="Model",
        ),
    ] = None,
) -> KernelOptions:
    """Options of the commands that train, about kernels."""
    given = {
        "--gamma": gamma,
        "--degree": degree,
        "--coef0": coef0,
        "--approximation": approximation,
        "--components": components,
        "--landmarks": landmarks,
        "--memory": memory,
        "--dtype": dtype,
        "--seed": seed if kernel is not None else None,
    }
    for option in (name for name, value in given.items() if value is not None):
        if kernel is None:
            raise UsageProblem(f"{option} needs --kernel")
        if kernel not in _KERNELS_WITH.get(option, Kernel):
            raise UsageProblem(f"{option} has no meaning for --kernel {kernel.value}")
        if approximation not in _APPROXIMATIONS_WITH.get(option, (None, *Approximation)):
            named = " or ".join(f"--approximation {one}" for one in _APPROXIMATIONS_WITH[option])
            raise UsageProblem(f"{option} needs {named}")
    return KernelOptions(
        kernel=value_of(kernel),
        gamma=None if gamma is None else _parse_gamma(gamma),
        degree=degree,
        coef0=coef0,
        approximation=value_of(approximation),
        n_components=components,
        landmarks=value_of(landmarks),
        memory_budget=memory,
        dtype=value_of(dtype),
        random_state=0 if seed is None and approximation is not None else seed,
    )


# For which kernels and approximations an option means something, if not for all.
_KERNELS_WITH: dict[str, tuple[Kernel, ...]] = {
    "--gamma": (Kernel.rbf, Kernel.laplacian, Kernel.poly, Kernel.sigmoid),
    "--degree": (Kernel.poly,),
    "--coef0": (Kernel.poly, Kernel.sigmoid),
}
_APPROXIMATIONS_WITH: dict[str, tuple[Approximation, ...]] = {
    "--components": (Approximation.nystroem, Approximation.fourier),
    "--landmarks": (Approximation.nystroem,),
    "--seed": (Approximation.nystroem, Approximation.fourier),
}


def _parse_gamma(text: str) -> float | str:
    if text in ("scale", "auto"):
        return text
    try:
        return parse_number(text)
    except (ValueError, OverflowError):
        raise UsageProblem(
            f"--gamma {text!r}: expected a positive number such as 0.1 or 2^-5, scale or auto"
        ) from None

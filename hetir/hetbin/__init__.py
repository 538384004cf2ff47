"""Hetbin files: kernels built ahead of time for several targets, in one portable file."""

from hetir.hetbin.build import CPUS, check_targets, specialise
from hetir.hetbin.errors import (
    DamagedHetbinError,
    HetbinError,
    HetbinVersionError,
    NoSpecialisationError,
)
from hetir.hetbin.load import BuiltKernel, Hetbin, NoKernelError, load
from hetir.hetbin.model import Payload, Point, Specialisation
from hetir.hetbin.reader import decode
from hetir.hetbin.writer import encode

__all__ = [
    "CPUS",
    "BuiltKernel",
    "DamagedHetbinError",
    "Hetbin",
    "HetbinError",
    "HetbinVersionError",
    "NoKernelError",
    "NoSpecialisationError",
    "Payload",
    "Point",
    "Specialisation",
    "check_targets",
    "decode",
    "encode",
    "load",
    "specialise",
]

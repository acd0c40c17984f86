"""Embedded models, which work without a network, and sample texts written for this project."""

from nbsal.samples import base as base
from nbsal.samples import notes as notes
from nbsal.samples import planted as planted
from nbsal.samples import real as real
from nbsal.samples import small as small
from nbsal.samples import trained as trained
from nbsal.samples.embedded import ENCODERS as ENCODERS
from nbsal.samples.embedded import KINDS as KINDS
from nbsal.samples.embedded import LABELS as LABELS
from nbsal.samples.embedded import MASKS as MASKS
from nbsal.samples.embedded import TEXTS as TEXTS
from nbsal.samples.embedded import build as build
from nbsal.samples.embedded import build_lm as build_lm
from nbsal.samples.embedded import default_classifier as default_classifier
from nbsal.samples.embedded import delta as delta
from nbsal.samples.embedded import mask_file as mask_file
from nbsal.samples.embedded import texts as texts
from nbsal.samples.embedded import tokenizer as tokenizer

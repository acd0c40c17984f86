"""Processes that share their imports, so that starting one is cheap."""

import multiprocessing

IMPORTS = ["transformers.models.bert.modeling_bert", "nbsal.corpus", "pandas", "dask.system", "s3fs", "tests.zoo"]


def forkserver():
    """The context of processes that are forked from a server, which has imported what they need."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTS)
    return context

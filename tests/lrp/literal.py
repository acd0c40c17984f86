"""AttnLRP by its rules alone: a recorded forward pass, and relevance handed back function by function.

A slow second implementation for tests, in float64 and without an epsilon. Every function that reads what was computed
from the embeddings is recorded. From a logit down, the relevance R of an output z is handed to the inputs: as
x_i w_ij R_j / z_j where contributions x_i w_ij are summed (linear layers, means, additions; constants take their part),
half to either factor of a product, x_i (R_i - z_i sum R) at softmax, and unchanged at activations, at products with
constants and where a norm divides by its scale.
"""

import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from nbsal.passes.lrp import functions

LINEAR = {functional.linear, torch.addmm}
ADD = {torch.add, Tensor.add, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__, Tensor.add_}
SUBTRACT = {torch.sub, Tensor.sub, Tensor.__sub__}
MATMUL = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.bmm}
MULTIPLY = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__, Tensor.__truediv__, Tensor.div}
SOFTMAX = {functional.softmax, torch.softmax, Tensor.softmax}
UNCHANGED = {functional.gelu, functional.relu, functional.silu, torch.tanh, functional.dropout, Tensor.__neg__}


def share(relevance, total):
    """R / z, and 0 where nothing was summed."""
    return torch.where(total == 0, 0.0, relevance / total)


def summed_to(relevance, like):
    """Relevance of what was repeated, as that of the tensor itself."""
    return relevance.sum_to_size(like.shape)


def linear(x, weight, z, relevance):
    """R_i as the sum of x_i w_ij R_j / z_j; `weight` is [input, output]."""
    return torch.stack([(x[..., i, None] * weight[i] * share(relevance, z)).sum(-1) for i in range(len(weight))], -1)


def product(a, b, z, relevance):
    """Half of R, by the contributions a_ik b_kj to z_ij, for either factor."""
    contributions = a[..., :, :, None] * b[..., None, :, :] * share(relevance, z)[..., :, None, :]
    return summed_to(contributions.sum(-1), a) / 2, summed_to(contributions.sum(-3), b) / 2


def layer_norm(x, bias, z, relevance):
    """The bias takes its part; the scale and the weight hand R on as it is; the mean is a sum of x_i / n."""
    size, without_bias = x.shape[-1], z if bias is None else z - bias
    relevance = without_bias * share(relevance, z)
    centred = x - x.mean(-1, keepdim=True)
    return linear(x, torch.eye(size).to(x) - 1 / size, centred, relevance)


class Tape(TorchFunctionMode):
    """Records what is computed from the embeddings: (function, arguments, named ones, output, number of the output)."""

    def __init__(self):
        super().__init__()
        self.calls, self.computed, self.inside = [], {}, 0

    def is_computed(self, value):
        return isinstance(value, Tensor) and id(value) in self.computed

    def add(self, tensor):
        self.computed[id(tensor)] = tensor  # held, so that no other takes its id

    def record(self, function, args, kwargs, output):
        for number, tensor in enumerate(output if isinstance(output, tuple | list) else [output]):
            if isinstance(tensor, Tensor) and tensor.is_floating_point():
                self.add(tensor)
                self.calls.append((function, args, kwargs, tensor, number))

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function in (Tensor.__iadd__, Tensor.add_):
            function = torch.add
        output = function(*args, **(kwargs or {}))
        flat = [x for value in args for x in (value if isinstance(value, tuple | list) else [value])]
        if not self.inside and any(map(self.is_computed, flat)) and output is not flat[0]:
            self.record(function, args, kwargs or {}, output)
        return output

    def hand_back(self, function, args, kwargs, z, number, relevance):
        """The computed tensors that a function read, each with its part of the relevance."""
        x, computed = args[0], [value for value in args if self.is_computed(value)]
        if function == "unchanged" or function in UNCHANGED or (function in MULTIPLY and len(computed) == 1):
            return [(computed[0], relevance)]
        if function is functional.linear:
            return [(x, linear(x, args[1].T, z, relevance))]
        if function is torch.addmm:
            return [(args[1], linear(args[1], args[2], z, relevance))]
        if function is functional.layer_norm:
            return [(x, layer_norm(x, kwargs["bias"], z, relevance))]
        if function in ADD | SUBTRACT:
            signs = (1, -1 if function in SUBTRACT else 1)
            parts = zip(args[:2], signs, strict=True)
            return [(a, summed_to(s * a * share(relevance, z), a)) for a, s in parts if self.is_computed(a)]
        if function in MATMUL and len(computed) == 2:
            return list(zip(args, product(*args, z, relevance), strict=True))
        if function in MULTIPLY:
            return [(a, summed_to(relevance / 2, a)) for a in args]
        if function in SOFTMAX:
            return [(x, torch.where(z == 0, 0.0, x * (relevance - z * relevance.sum(-1, keepdim=True))))]
        return self.moved(function, args, kwargs, number, relevance)

    def moved(self, function, args, kwargs, number, relevance):
        """Relevance goes where the numbers came from; a function that does more than move them is refused."""
        leaves = []

        def leaf(value):
            if isinstance(value, tuple | list):
                return type(value)(map(leaf, value))
            if not self.is_computed(value):
                return value
            leaves.append((value, value.detach().clone().requires_grad_()))
            return leaves[-1][1]

        with torch.enable_grad():
            output = function(*map(leaf, args), **kwargs)
            output = output[number] if isinstance(output, tuple | list) else output
            total = output.sum()
        if not output.requires_grad:  # it read no more than a shape
            return []
        ones = torch.autograd.grad(total, [copy for _, copy in leaves], retain_graph=True)
        assert all(torch.equal(one, one.round()) for one in ones), function
        parts = torch.autograd.grad(output, [copy for _, copy in leaves], relevance)
        return [(value, part) for (value, _), part in zip(leaves, parts, strict=True)]


def relevance(model, run, first_blocks, index):
    """The relevance of each embedding that the first block of a side reads, from the logit at `index`."""
    tape, roots = Tape(), []
    single = [m for m in model.modules() if "activations" in type(m).__module__ or functions.is_norm(m)]

    def start(module, args, kwargs):
        roots.append(args[0] if args else kwargs["hidden_states"])
        tape.add(roots[-1])

    def enter(module, args):
        tape.inside += 1

    def leave(module, args, output):
        tape.inside -= 1
        if tape.is_computed(args[0]):
            tape.record("unchanged", args, {}, output)

    handles = [block.register_forward_pre_hook(start, with_kwargs=True) for block in first_blocks]
    handles += [
        handle for m in single for handle in (m.register_forward_pre_hook(enter), m.register_forward_hook(leave))
    ]
    with torch.no_grad(), tape:
        logits = run()
    for handle in handles:
        handle.remove()
    return propagate(tape, roots, logits, index)


@torch.no_grad()
def propagate(tape, roots, logits, index):
    """The relevance of the roots, from 1 at a logit, through all recorded functions from the last to the first."""
    arrived = {id(logits): torch.zeros_like(logits)}
    arrived[id(logits)][index] = logits[index]
    for function, args, kwargs, z, number in reversed(tape.calls):
        if id(z) in arrived:
            for x, part in tape.hand_back(function, args, kwargs, z, number, arrived[id(z)]):
                arrived[id(x)] = arrived.get(id(x), 0) + part
    return [arrived[id(root)] for root in roots]

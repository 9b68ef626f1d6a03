"""Compute recurrent cells in NumPy.

LSTM steps and whole sequences, GRU steps, and their gradients.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tfjit.kernels.cpu.reference.inputs import Arrays, compute_dtype, invalid, shape_text
from tfjit.kernels.executor.blas_threads import on_free_cores
from tfjit.kernels.registry import NodeSpec, reference

Array = np.ndarray


class _Cell(NamedTuple):
    """Hold the weights and settings that an LSTM's steps share.

    w [inputs + cells, 4 * cells], b [4 * cells], peepholes [cells].
    """

    w: Array
    peepholes: tuple[Array, Array, Array] | None
    b: Array
    forget_bias: Any
    clip: Any
    order: str  # of the gates in w and b

    def gates(self, joined: Array) -> dict[str, Array]:
        """Split [batch, 4 * cells] by gate."""
        return dict(zip(self.order, np.split(joined, 4, axis=1)))

    def joined(self, gates: dict[str, Array]) -> Array:
        """Join the gates side by side, as w has them."""
        return np.concatenate([gates[name] for name in self.order], 1)


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _cell(node: NodeSpec, w: Array, wci: Array, wcf: Array, wco: Array, b: Array) -> _Cell:
    kind = compute_dtype(w.dtype)
    wide = [v.astype(kind, copy=False) for v in (w, wci, wcf, wco, b)]
    holes = (wide[1], wide[2], wide[3]) if node.attrs["use_peephole"] else None
    # V2 has the order of the gates that cuDNN has, and no separate bias of the forget gate
    order = "ifco" if node.op.endswith("V2") else "icfo"
    return _Cell(
        wide[0],
        holes,
        wide[4],
        kind(node.attrs.get("forget_bias", 0)),
        kind(node.attrs.get("cell_clip", -1)),
        order,
    )


def _step(cell: _Cell, x: Array, cs_prev: Array, h_prev: Array) -> tuple[Array, ...]:
    """Return (i, cs, f, o, ci, co, h) of one step."""
    gates = cell.gates(np.concatenate([x, h_prev], 1) @ cell.w + cell.b)
    i, f = gates["i"], gates["f"] + cell.forget_bias
    if cell.peepholes is not None:
        i, f = i + cs_prev * cell.peepholes[0], f + cs_prev * cell.peepholes[1]
    i, f, ci = _sigmoid(i), _sigmoid(f), np.tanh(gates["c"])
    cs = ci * i + f * cs_prev
    if cell.clip > 0:
        cs = np.clip(cs, -cell.clip, cell.clip)
    o = gates["o"] if cell.peepholes is None else gates["o"] + cs * cell.peepholes[2]
    o, co = _sigmoid(o), np.tanh(cs)
    return i, cs, f, o, ci, co, o * co


def _step_back(
    cell: _Cell, saved: list[Array], cs_prev: Array, cs_grad: Array, h_grad: Array
) -> tuple[Array, dict[str, Array]]:
    """Return the gradients of cs_prev and of each gate before its activation.

    saved: i, cs, f, o, ci, co of the step.
    """
    i, _, f, o, ci, co = saved
    do = o * (1 - o) * h_grad * co
    dcs = (1 - co * co) * h_grad * o + cs_grad
    if cell.peepholes is not None:
        dcs = dcs + do * cell.peepholes[2]
    gates = {
        "i": i * (1 - i) * dcs * ci,
        "c": (1 - ci * ci) * dcs * i,
        "f": f * (1 - f) * dcs * cs_prev,
        "o": do,
    }
    back = dcs * f
    if cell.peepholes is not None:
        back = back + gates["i"] * cell.peepholes[0] + gates["f"] * cell.peepholes[1]
    return back, gates


def _check(values: Arrays, ranks: tuple[int, ...], names: str) -> None:
    for value, rank, name in zip(values, ranks, names.split()):
        if value.ndim != rank:
            invalid(f"{name} must be rank {rank} but is rank {value.ndim}")


def _check_sizes(x: Array, cs_prev: Array, h_prev: Array, w: Array, b: Array) -> None:
    """Check the sizes of the inputs; x is [..., batch, inputs]."""
    batch, inputs = x.shape[-2:]
    cells = cs_prev.shape[1]
    for value, name in ((cs_prev, "cs_prev"), (h_prev, "h_prev")):
        if value.shape[0] != batch:
            invalid(f"{name}.dims(0) != batch_size: {value.shape[0]} vs. {batch}")
    if h_prev.shape[1] != cells:
        invalid(f"h_prev.dims(1) != cell_size: {h_prev.shape[1]} vs. {cells}")
    if w.shape[0] != inputs + cells:
        invalid(f"w.dim_size(0) != input_size + cell_size: {w.shape[0]} vs. {inputs + cells}")
    if w.shape[1] != 4 * cells:
        invalid(f"w.dim_size(1) != cell_size * 4: {w.shape[1]} vs. {4 * cells}")
    if b.shape[0] != 4 * cells:
        invalid(f"b.dim_size(0) != cell_size * 4: {b.shape[0]} vs. {4 * cells}")


@reference("LSTMBlockCell")
@on_free_cores
def _lstm_cell(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute one LSTM step.

    x [batch, inputs], cs_prev and h_prev [batch, cells], w, peepholes, b -> i, cs, f, o, ci, co, h
    [batch, cells].
    """
    x, cs_prev, h_prev, w, wci, wcf, wco, b = inputs
    _check((x, cs_prev, h_prev, w, b), (2, 2, 2, 2, 1), "x cs_prev h_prev w b")
    _check_sizes(x, cs_prev, h_prev, w, b)
    cell = _cell(node, w, wci, wcf, wco, b)
    with np.errstate(all="ignore"):
        found = _step(cell, *(v.astype(cell.w.dtype, copy=False) for v in (x, cs_prev, h_prev)))
    return tuple(v.astype(x.dtype, copy=False) for v in found)


@reference("LSTMBlockCellGrad")
def _lstm_cell_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of one LSTM step.

    The cell's inputs and outputs, cs_grad, h_grad -> cs_prev_grad, dgates [batch, 4 * cells],
    gradients of the peepholes.
    """
    dtype = inputs[0].dtype
    wide = [v.astype(compute_dtype(dtype), copy=False) for v in inputs]
    _, cs_prev, _, w, wci, wcf, wco, b = wide[:8]
    saved, (cs_grad, h_grad) = wide[8:14], wide[14:]
    cell = _cell(node, w, wci, wcf, wco, b)
    back, gates = _step_back(cell, saved, cs_prev, cs_grad, h_grad)
    zero = np.zeros_like(wci)
    holes = [zero, zero, zero]
    if cell.peepholes is not None:
        holes = [
            (gates["i"] * cs_prev).sum(0),
            (gates["f"] * cs_prev).sum(0),
            (gates["o"] * saved[1]).sum(0),
        ]
    return tuple(v.astype(dtype, copy=False) for v in (back, cell.joined(gates), *holes))


@reference("BlockLSTM", "BlockLSTMV2")
@on_free_cores
def _lstm(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute an LSTM over a sequence.

    seq_len_max [], x [time, batch, inputs], cs_prev, h_prev, w, peepholes, b -> i, cs, f, o, ci,
    co, h [time, batch, cells].

    Steps from seq_len_max on are 0.
    """
    steps, x, cs_prev, h_prev, w, wci, wcf, wco, b = inputs
    _check((x, cs_prev, h_prev, w, b), (3, 2, 2, 2, 1), "x cs_prev h_prev w b")
    _check_sizes(x, cs_prev, h_prev, w, b)
    cell = _cell(node, w, wci, wcf, wco, b)
    count = int(steps)
    if count > len(x):
        invalid(f"seq_len_max must be at most the number of time steps: {count} vs. {len(x)}")
    outputs = [np.zeros((len(x), *cs_prev.shape), x.dtype) for _ in range(7)]
    cs, h = (v.astype(cell.w.dtype, copy=False) for v in (cs_prev, h_prev))
    with np.errstate(all="ignore"):
        for t in range(count):
            found = _step(cell, x[t].astype(cell.w.dtype, copy=False), cs, h)
            cs, h = found[1], found[6]
            for out, value in zip(outputs, found):
                out[t] = value
    return outputs


@reference("BlockLSTMGrad", "BlockLSTMGradV2")
@on_free_cores
def _lstm_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of an LSTM over a sequence.

    BlockLSTM's inputs and outputs, cs_grad and h_grad [time, batch, cells] -> gradients of x,
    cs_prev, h_prev, w, peepholes, b.
    """
    dtype = inputs[1].dtype
    count = int(inputs[0])
    wide = [v.astype(compute_dtype(dtype), copy=False) for v in inputs[1:]]
    x, cs_first, h_first, w, wci, wcf, wco, b = wide[:8]
    saved, h, (cs_grads, h_grads) = wide[8:14], wide[14], wide[15:]
    if count > len(x):
        invalid(
            f"seq_len_max must be at most the number of time steps: {count} vs. {len(x)} in "
            f"{shape_text(x)}"
        )
    cell = _cell(node, w, wci, wcf, wco, b)
    dx, dw, db = np.zeros_like(x), np.zeros_like(w), np.zeros_like(b)
    holes = [np.zeros_like(v) for v in (wci, wcf, wco)]
    cs_back, h_back = np.zeros_like(cs_first), np.zeros_like(h_first)
    for t in reversed(range(count)):
        cs_prev, h_prev = (saved[1][t - 1], h[t - 1]) if t else (cs_first, h_first)
        step = [v[t] for v in saved]
        cs_back, gates = _step_back(cell, step, cs_prev, cs_grads[t] + cs_back, h_grads[t] + h_back)
        joined = cell.joined(gates)
        back = joined @ w.T
        dx[t], h_back = back[:, : x.shape[2]], back[:, x.shape[2] :]
        dw += np.concatenate([x[t], h_prev], 1).T @ joined
        db += joined.sum(0)
        if cell.peepholes is not None:
            for hole, name, state in zip(holes, "ifo", (cs_prev, cs_prev, step[1])):
                hole += (gates[name] * state).sum(0)
    return tuple(v.astype(dtype, copy=False) for v in (dx, cs_back, h_back, dw, *holes, db))


@reference("GRUBlockCell")
@on_free_cores
def _gru(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute one GRU step.

    x [batch, inputs], h_prev [batch, cells], w_ru, w_c, b_ru, b_c -> r, u, c, h [batch, cells].
    """
    x, h_prev, w_ru, w_c, b_ru, b_c = inputs
    _check(inputs, (2, 2, 2, 2, 1, 1), "x h_prev w_ru w_c b_ru b_c")
    cells = h_prev.shape[1]
    joined = x.shape[1] + cells
    if h_prev.shape[0] != x.shape[0]:
        invalid(f"h_prev.dims(0) != batch_size: {h_prev.shape[0]} vs. {x.shape[0]}")
    for value, shape, name in (
        (w_ru, (joined, 2 * cells), "w_ru"),
        (w_c, (joined, cells), "w_c"),
        (b_ru, (2 * cells,), "b_ru"),
        (b_c, (cells,), "b_c"),
    ):
        for axis, size in enumerate(shape):
            if value.shape[axis] != size:
                invalid(f"{name}.dim_size({axis}) must be {size} but is {value.shape[axis]}")
    with np.errstate(all="ignore"):
        r, u = np.split(_sigmoid(np.concatenate([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1)
        c = np.tanh(np.concatenate([x, h_prev * r], 1) @ w_c + b_c)
        return np.ascontiguousarray(r), np.ascontiguousarray(u), c, u * h_prev + (1 - u) * c


@reference("GRUBlockCellGrad")
@on_free_cores
def _gru_grad(node: NodeSpec, inputs: Arrays) -> Arrays:
    """Compute the gradients of one GRU step.

    The cell's inputs, r, u, c, d_h -> d_x, d_h_prev, gradients of the gates before their
    activation: d_c_bar, d_r_bar_u_bar.
    """
    x, h_prev, w_ru, w_c, _, _, r, u, c, d_h = inputs
    d_c_bar = d_h * (1 - u) * (1 - c * c)
    d_u_bar = d_h * (h_prev - c) * u * (1 - u)
    through_c = d_c_bar @ w_c.T
    d_hr = through_c[:, x.shape[1] :]
    d_ru = np.concatenate([d_hr * h_prev * r * (1 - r), d_u_bar], 1)
    through_ru = d_ru @ w_ru.T
    d_h_prev = through_ru[:, x.shape[1] :] + d_hr * r + d_h * u
    return through_ru[:, : x.shape[1]] + through_c[:, : x.shape[1]], d_h_prev, d_c_bar, d_ru

"""Type a nonlinearity, move the sliders: error curves, Hermite expansion, phase diagram, formulas.

marimo run examples/explorer.py      in a browser
python examples/explorer.py          once, as a script
"""

import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="rmtsym explorer")

with app.setup:
    import gc
    from io import BytesIO

    import marimo as mo
    import numpy as np
    import sympy as sp
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from workbench import attention_errors

    from rmtsym import MODELS, Nonlinearity, RmtsymError, regression_error
    from rmtsym.plot import draw_hermite

    gc.freeze()  # a collection over all of SymPy takes 0.1 s of a redraw


@app.function
def read(text):
    """The nonlinearity and None, or None and what is wrong with the formula."""
    try:
        f = Nonlinearity(text)
        f.nu()
        f.centred().coefficient(1)
    except RmtsymError as error:
        return None, str(error)
    return f, None


@app.function
def place(*, snr, w_k, w_q, angle_k, angle_q, around):
    """Coordinates of mu, w_K, w_Q from lengths and angles in degrees."""
    a, b, phi = np.deg2rad([angle_k, angle_q, around])
    mu = np.array([np.sqrt(snr), 0, 0])
    key = w_k * np.array([np.cos(a), np.sin(a), 0])
    query = w_q * np.array([np.cos(b), np.sin(b) * np.cos(phi), np.sin(b) * np.sin(phi)])
    return mu, key, query


@app.function
def explore(f, *, gamma, ratio, mu, w_k, w_q, points=21, grid=14):
    """Both errors at a point, along gamma, p/n and SNR, and on the plane of the last two.

    One call solves all of them.
    """
    snr = float(mu @ mu)
    along = {
        "gamma": np.geomspace(1e-4, 1e2, points),
        "p/n": np.geomspace(0.1, 10, points),
        "SNR": np.geomspace(0.01, 20, points),
    }
    x, y = (
        a.ravel() for a in np.meshgrid(np.geomspace(0.1, 10, grid), np.geomspace(0.01, 20, grid))
    )
    pieces = [(gamma, ratio, snr)]
    pieces += list(zip(along["gamma"], [ratio] * points, [snr] * points, strict=True))
    pieces += list(zip([gamma] * points, along["p/n"], [snr] * points, strict=True))
    pieces += list(zip([gamma] * points, [ratio] * points, along["SNR"], strict=True))
    pieces += list(zip([gamma] * len(x), x, y, strict=True))
    g, c, s = np.array(pieces).T
    signal = np.sqrt(s)[:, None] * [1, 0, 0]
    attention = attention_errors(f, ratio=c, gamma=g, mu=signal, w_k=w_k, w_q=w_q)
    regression = regression_error(ratio=c, gamma=g, snr=s)
    curves, start = {}, 1
    for name, values in along.items():
        part = slice(start, start + points)
        curves[name] = (values, attention[part], regression[part])
        start += points
    plane = [a[start:].reshape(grid, grid) for a in (c, s, attention / regression)]
    return attention[0], regression[0], curves, plane


@app.function
def png(figure, dpi=75):
    """A figure as the bytes of a PNG file."""
    FigureCanvasAgg(figure)
    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return buffer.getvalue()


@app.function
def ticks(axis, low, high, step=1):
    """A few decades as ticks of an axis in log10: Matplotlib's own log ticks take 0.3 s."""
    decades = range(low, high + 1, step)
    axis.set_ticks(list(decades), [f"{10.0**k:g}" for k in decades])
    axis.axes.tick_params(labelsize=9)


@app.function
def draw_errors(found, at):
    """Error curves with the chosen point, and the phase diagram."""
    attention, regression, curves, (c, s, quotient) = found
    figure = Figure(figsize=(12.5, 6.4))
    axes = figure.subplots(2, 2).ravel()
    figure.subplots_adjust(0.05, 0.08, 0.99, 0.95, 0.13, 0.32)
    for axis, (name, (x, one, other)) in zip(axes, curves.items(), strict=False):
        axis.plot(np.log10(x), one, color="C0", label="attention")
        axis.plot(np.log10(x), other, "--", color="C1", label="linear regression")
        axis.plot([np.log10(at[name])] * 2, [attention, regression], "o", color="black", ms=4)
        ticks(axis.xaxis, round(np.log10(x[0])), round(np.log10(x[-1])))
        axis.set_yticks([0, 0.5, 1])
        axis.set(xlabel=name, ylim=(0, 1.02))
    axes[0].set_title("interpolation error, dots: the point chosen", fontsize=10)
    axes[0].legend(frameon=False)
    x, y = np.log10(c[0]), np.log10(s[:, 0])
    axes[3].imshow(
        np.log2(quotient), extent=(x[0], x[-1], y[0], y[-1]), origin="lower", aspect="auto",
        interpolation="bilinear", cmap="RdBu_r", vmin=-1, vmax=1,
    )  # fmt: skip
    if quotient.min() < 1 < quotient.max():
        axes[3].contour(x, y, quotient, [1], colors="black")
    axes[3].plot(*np.log10([at["p/n"], at["SNR"]]), "o", color="white", mec="black")
    ticks(axes[3].xaxis, -1, 1)
    ticks(axes[3].yaxis, -2, 1)
    axes[3].set(xlabel="p/n", ylabel="SNR")
    axes[3].set_title(
        "attention / linear regression: blue 1/2 or less, red 2 or more; black: equal", fontsize=10
    )
    return figure


@app.function
def draw_expansion(f, order=8):
    """f with its partial sums, and its coefficients."""
    figure = Figure(figsize=(12.5, 3))
    axes = figure.subplots(1, 2)
    figure.subplots_adjust(0.05, 0.16, 0.99, 0.96, 0.13)
    draw_hermite(f, axes, order)
    axes[0].legend(frameon=False, ncols=2, fontsize="small")
    return figure


@app.function
def formulas(f, order=4):
    """Closed forms of the coefficients, the expression and its limiting equations, in LaTeX."""
    rows = [(rf"a_{row['k']}", row["exact"], row["value"]) for row in f.rows(order)] + [
        (r"\nu", f.exact_nu(), f.nu())
    ]
    lines = [
        f"{name} &= "
        + (f"{sp.latex(exact)} \\approx " if exact is not None else "")
        + f"{value:.6f}"
        for name, exact, value in rows
    ]
    coefficients = r"\begin{aligned}" + r" \\ ".join(lines) + r"\end{aligned}"
    return coefficients


@app.cell
def _():
    mo.md(r"""
    # Interpolation error of nonlinear attention

    Tokens $X = \mu y^T + Z$, scores $X^T (I + w_K w_Q^T) X / \sqrt p$, kernel
    $K = f(\text{scores}) / \sqrt p$ off the diagonal; the ridge error of $y$ on $X K$ in the
    limit $p / n \to c$, beside linear regression on $X$.
    """)
    return


@app.cell
def _():
    formula = mo.ui.text("tanh(t)", label="f(t) =", full_width=True)

    def slider(start, stop, step, value, label):
        return mo.ui.slider(start, stop, step, value=value, label=label, show_value=True)

    sliders = mo.ui.dictionary(
        {
            "gamma": slider(-4, 2, 0.1, 0, r"$\log_{10} \gamma$"),
            "ratio": slider(-1, 1, 0.05, -0.6, r"$\log_{10} p/n$"),
            "snr": slider(-2, 1.3, 0.05, 0, r"$\log_{10} \|\mu\|^2$"),
            "w_k": slider(0, 3, 0.1, 1, r"$\|w_K\|$"),
            "w_q": slider(0, 3, 0.1, 1, r"$\|w_Q\|$"),
            "angle_k": slider(0, 180, 5, 0, r"$\angle(w_K, \mu)$"),
            "angle_q": slider(0, 180, 5, 0, r"$\angle(w_Q, \mu)$"),
            "around": slider(0, 180, 5, 0, r"$w_Q$ around $\mu$"),
        }
    )
    return formula, sliders


@app.cell
def _(formula, sliders):
    _items = list(sliders.values())
    mo.vstack(
        [
            formula,
            mo.hstack([mo.vstack(_items[:3]), mo.vstack(_items[3:5]), mo.vstack(_items[5:])],
                      justify="start", gap=2, wrap=True),
        ]
    )  # fmt: skip
    return


@app.cell
def _(formula):
    f, _problem = read(formula.value)
    mo.stop(f is None, mo.callout(mo.md(f"**{formula.value}**: {_problem}"), kind="danger"))
    return (f,)


@app.cell
def _(f, sliders):
    _v = sliders.value
    at = {"gamma": 10 ** _v["gamma"], "p/n": 10 ** _v["ratio"], "SNR": 10 ** _v["snr"]}
    _mu, _w_k, _w_q = place(
        snr=at["SNR"],
        **{name: _v[name] for name in ("w_k", "w_q", "angle_k", "angle_q", "around")},
    )
    found = explore(f, gamma=at["gamma"], ratio=at["p/n"], mu=_mu, w_k=_w_k, w_q=_w_q)
    return at, found


@app.cell
def _(at, f, found):
    _a_1, _nu = f.centred().coefficient(1), f.centred().nu()
    _share = _a_1**2 / _nu if _nu > 0 else 0
    mo.hstack(
        [
            mo.stat(f"{found[0]:.5f}", label="attention"),
            mo.stat(f"{found[1]:.5f}", label="linear regression"),
            mo.stat(f"{_share:.4f}", label="a_1^2 / nu, centred"),
            mo.stat(f"{at['gamma']:.3g}", label="gamma"),
            mo.stat(f"{at['p/n']:.3g}", label="p/n"),
            mo.stat(f"{at['SNR']:.3g}", label="SNR"),
        ],
        justify="start",
        wrap=True,
    )
    return


@app.cell
def _(at, found):
    mo.image(png(draw_errors(found, at)), alt="error curves and phase diagram")
    return


@app.cell
def _(f):
    mo.image(png(draw_expansion(f)), alt="Hermite expansion")
    return


@app.cell
def _(f):
    mo.md(rf"""
    $$f(t) = {sp.latex(f.expression)}$$

    $${formulas(f)}$$
    """)
    return


@app.cell
def _():
    mo.accordion(
        {
            "the expression": mo.md(
                f"$${MODELS['attention'].expression._repr_latex_().strip('$')}$$"
            ),
            "its limiting equations": mo.md(MODELS["attention"].system._repr_latex_()),
        }
    )
    return


if __name__ == "__main__":
    app.run()

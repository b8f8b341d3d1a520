"""The program `digits.zynml` as a NumPy script: `python digits_numpy.py FOLDER`. It reads the same data and draws the same pictures, into
that folder."""

import sys
from pathlib import Path

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DATA = Path(__file__).parent.parent.parent / "programs" / "data" / "digits.npz"

folder = Path(sys.argv[1])
epochs, hidden, rate, batch = 30, 96, np.float32(0.1), 64
f32 = np.float32

with np.load(DATA) as stored:
    images, labels = stored["images"], stored["labels"]
count = len(images)
held_out = count // 5
generator = np.random.default_rng(7)
order = np.argsort(generator.random(count, dtype=f32))
pixels = images[order].reshape(count, 64).astype(f32) / f32(16)
digit = labels[order].astype(np.int64)
split = count - held_out
train_x, train_y, test_x, test_y = pixels[:split], digit[:split], pixels[split:], digit[split:]


def weights(rows: int, columns: int) -> np.ndarray:
    return generator.standard_normal((rows, columns), dtype=f32) * f32((2 / rows) ** 0.5)


def softmax_rows(z: np.ndarray) -> np.ndarray:
    raised = np.exp(z - z.max(axis=1, keepdims=True))
    return raised / raised.sum(axis=1, keepdims=True)


def step(w: np.ndarray, v: np.ndarray, g: np.ndarray) -> None:
    v *= f32(0.9)
    v -= rate * g
    w += v


w1, b1, w2, b2 = weights(64, hidden), np.zeros(hidden, f32), weights(hidden, 10), np.zeros(10, f32)
v1, u1, v2, u2 = np.zeros_like(w1), np.zeros_like(b1), np.zeros_like(w2), np.zeros_like(b2)
losses = []


def epoch() -> float:
    total, batches = 0.0, 0
    for first in range(0, split, batch):
        x, y = train_x[first : first + batch], train_y[first : first + batch]
        rows = np.arange(len(x))
        a = x @ w1 + b1
        h = np.maximum(a, f32(0))
        p = softmax_rows(h @ w2 + b2)
        total += float(-np.log(np.maximum(p[rows, y], f32(1e-12))).mean())
        batches += 1
        d2 = p
        d2[rows, y] -= f32(1)
        d2 /= f32(len(x))
        d1 = np.where(a > 0, d2 @ w2.T, f32(0))
        step(w2, v2, h.T @ d2)
        step(b2, u2, d2.sum(axis=0))
        step(w1, v1, x.T @ d1)
        step(b1, u1, d1.sum(axis=0))
    return total / batches


def save(figure: Figure, name: str) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(folder / name, dpi=100)


def draw_losses() -> None:
    figure = Figure(figsize=(8, 4.8))
    axes = figure.add_subplot()
    axes.plot(losses, linewidth=1.5)
    axes.set_title("Mean loss by epoch")
    figure.tight_layout()
    save(figure, "digits_loss.png")


def draw_confusion(counts: np.ndarray) -> None:
    figure = Figure(figsize=(6.4, 5.6))
    axes = figure.add_subplot()
    drawn = axes.imshow(counts)
    figure.colorbar(drawn, ax=axes)
    axes.set_xticks(range(10))
    axes.set_yticks(range(10))
    for (row, column), value in np.ndenumerate(counts):
        axes.text(column, row, str(value), ha="center", va="center", fontsize=9, color="black" if 2 * value > counts.max() else "white")
    axes.set_title("Digits: written (rows), read (columns)")
    figure.tight_layout()
    save(figure, "digits_confusion.png")


def draw_digit(values: np.ndarray, title: str, name: str) -> None:
    figure = Figure(figsize=(1.6, 1.6))
    axes = figure.add_subplot()
    axes.imshow(values, cmap="gray", vmin=0, vmax=1)
    axes.set_axis_off()
    axes.set_title(title)
    save(figure, name)


def main() -> None:
    for number in range(epochs):
        losses.append(epoch())
        if number % 5 == 4 or number == 0:
            print(f"epoch {number + 1:>3}  loss {losses[-1]:.4f}")
    guess = softmax_rows(np.maximum(test_x @ w1 + b1, f32(0)) @ w2 + b2).argmax(axis=1)
    confusion = np.zeros((10, 10), np.int32)
    np.add.at(confusion, (test_y, guess), 1)
    draw_losses()
    draw_confusion(confusion)
    for shown, number in enumerate(np.flatnonzero(guess != test_y)[:6]):
        draw_digit(test_x[number].reshape(8, 8), f"a {test_y[number]} read as {guess[number]}", f"digits_misread_{shown + 1}.png")
    print(f"test accuracy: {(guess == test_y).mean():.4f}")


if __name__ == "__main__":
    main()

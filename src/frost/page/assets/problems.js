"use strict";
/* Problems with an answer at each position: mazes, sums, and cells of any other kind. */

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/* The chance of the last class at each position; of two classes, that of "yes". */
function yesChances(output, classes) {
  return Float64Array.from({ length: output.length / classes }, (_, row) => {
    const chances = chancesOf(output.subarray(row * classes, (row + 1) * classes));
    return chances[classes - 1];
  });
}

function sized(canvas, width, height) {
  const ratio = Math.min(window.devicePixelRatio || 1, 2);
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return pen;
}

function verdictOf(chances, truth, unit) {
  const wrong = truth.reduce((count, yes, i) => count + ((chances[i] > 0.5) !== yes), 0);
  return { isRight: wrong === 0, wrong, words: wrong ? `${wrong} ${unit}${wrong > 1 ? "s" : ""} wrong` : "right" };
}

/* ---- mazes: six maps, a wall to the north, east, south and west of each cell, the start, and the goal ---- */

const MOVES = (side) => [-side, 1, side, -1];

function wayOf(maze, side) {    // the cells between start and goal, by the way one came
  const cells = side * side, [start, goal] = [4, 5].map((map) => maze.indexOf(1, map * cells) - map * cells);
  const from = new Int32Array(cells).fill(-1), queue = [start];
  from[start] = start;
  for (const cell of queue) MOVES(side).forEach((move, way) => {
    const next = cell + move;
    if (maze[way * cells + cell] || next < 0 || next >= cells || from[next] >= 0) return;
    from[next] = cell;
    queue.push(next);
  });
  const way = new Array(cells).fill(false);
  for (let cell = goal; from[cell] >= 0; cell = from[cell]) { way[cell] = true; if (cell === start) break; }
  return way;
}

function newMaze(side) {    // a random tree by depth-first search, as frost.data.mazes
  const cells = side * side, maze = new Float32Array(6 * cells).fill(1, 0, 4 * cells);
  const pick = (count) => Math.floor(Math.random() * count);
  const seen = new Set([pick(cells)]), stack = [...seen];
  while (stack.length) {
    const cell = stack[stack.length - 1], row = Math.floor(cell / side), column = cell % side;
    const free = [row > 0, column < side - 1, row < side - 1, column > 0]
      .map((inside, way) => (inside && !seen.has(cell + MOVES(side)[way]) ? way : -1)).filter((way) => way >= 0);
    if (!free.length) { stack.pop(); continue; }
    const way = free[pick(free.length)], next = cell + MOVES(side)[way];
    maze[way * cells + cell] = maze[((way + 2) % 4) * cells + next] = 0;
    seen.add(next);
    stack.push(next);
  }
  const start = pick(cells);
  maze[4 * cells + start] = maze[5 * cells + ((start + 1 + pick(cells - 1)) % cells)] = 1;
  return maze;
}

function drawMaze(canvas, maze, side, chances, width) {
  const pen = sized(canvas, width, width), cells = side * side;
  const pad = Math.max(2, width * 0.03), cell = (width - 2 * pad) / side;
  if (chances) chances.forEach((chance, i) => {
    pen.globalAlpha = Math.max(0, chance);
    pen.fillStyle = colour("adaptive");
    pen.fillRect(pad + (i % side) * cell, pad + Math.floor(i / side) * cell, cell + 0.4, cell + 0.4);
  });
  pen.globalAlpha = 1;
  pen.strokeStyle = colour("ink");
  pen.lineCap = "square";
  pen.lineWidth = Math.max(1, cell * 0.09);
  pen.beginPath();
  for (let i = 0; i < cells; i++) {
    const x = pad + (i % side) * cell, y = pad + Math.floor(i / side) * cell;
    [[0, 0, 1, 0], [1, 0, 1, 1], [0, 1, 1, 1], [0, 0, 0, 1]].forEach(([ax, ay, bx, by], way) => {
      if (maze[way * cells + i]) { pen.moveTo(x + ax * cell, y + ay * cell); pen.lineTo(x + bx * cell, y + by * cell); }
    });
  }
  pen.stroke();
  for (const [map, name] of [[4, "good"], [5, "fixed"]]) {
    const at = maze.indexOf(1, map * cells) - map * cells;
    pen.fillStyle = colour(name);
    pen.beginPath();
    pen.arc(pad + (at % side + 0.5) * cell, pad + (Math.floor(at / side) + 0.5) * cell, cell * 0.3, 0, 7);
    pen.fill();
    pen.lineWidth = Math.max(1, cell * 0.07);
    pen.strokeStyle = colour("card");
    pen.stroke();
  }
}

function mazeView(facts, parts) {
  const side = facts.shape[1], cells = side * side, { stage, tools } = parts;
  let maze = null, truth = [], moved = 5;
  function move(cell) {
    const other = moved === 5 ? 4 : 5;
    if (cell < 0 || cell >= cells || maze[other * cells + cell]) return;
    maze = maze.slice();
    maze.fill(0, moved * cells, (moved + 1) * cells)[moved * cells + cell] = 1;
    this.show(maze);
    parts.change(maze, "your maze");
  }
  const view = {
    hint: "Tap a cell, or use the arrow keys, to move the goal (orange) or the start (green). The model shades the " +
      "way that it sees.",
    show(inputs) { maze = inputs; truth = wayOf(maze, side); drawMaze(stage, maze, side, null, 336); },
    overlay(output) { drawMaze(stage, maze, side, yesChances(output, facts.classes.length), 336); },
    thumbnail: (canvas, inputs) => drawMaze(canvas, inputs, side, null, 96),
    answer(output) {
      const chances = yesChances(output, facts.classes.length), verdict = verdictOf(chances, truth, "cell");
      const count = chances.reduce((total, chance) => total + (chance > 0.5), 0);
      return { said: verdict.isRight ? "solved" : "not solved", share: `${count} cells on the way`,
        verdict: verdict.isRight ? null : verdict, key: chances.map((chance) => +(chance > 0.5)).join("") };
    },
    card(body, output) {
      const canvas = make("canvas"), chances = yesChances(output, facts.classes.length);
      drawMaze(canvas, maze, side, chances, 128);
      const { wrong } = verdictOf(chances, truth, "cell");
      body.replaceChildren(canvas, make("p", { className: "note" }, wrong ? `${wrong} wrong` : "right"));
    },
    cardWidth: "7rem",
  };
  const go = move.bind(view);
  stage.tabIndex = 0;
  stage.addEventListener("pointerdown", (event) => {
    const box = stage.getBoundingClientRect();
    const at = (share) => Math.min(side - 1, Math.max(0, Math.floor(share * side)));
    go(at((event.clientY - box.top) / box.height) * side + at((event.clientX - box.left) / box.width));
  });
  stage.addEventListener("keydown", (event) => {
    const way = ["ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"].indexOf(event.key);
    if (way < 0) return;
    event.preventDefault();
    const cell = maze.indexOf(1, moved * cells) - moved * cells, column = cell % side;
    if ((way === 1 && column === side - 1) || (way === 3 && column === 0)) return;
    go(cell + MOVES(side)[way]);
  });
  const which = make("fieldset", { className: "which" }, make("legend", { className: "hidden" }, "What a tap moves"));
  for (const [map, name] of [[5, "move the goal"], [4, "move the start"]]) {
    const input = make("input", { type: "radio", name: "moved", checked: map === 5, onchange: () => { moved = map; } });
    which.append(make("label", {}, input, ` ${name}`));
  }
  const renew = () => { view.show(newMaze(side)); parts.change(maze, "a new maze"); };
  tools.append(make("button", { type: "button", onclick: renew }, "New maze"), which);
  parts.box.classList.add("cells");
  return view;
}

"use strict";
/* Runs a model that frost exported as graphs: `begin` is the first step, `steps` are the next ones (one graph stands
   for all of them where the weights are shared). The page knows engines by two verbs, so that another one, such as a
   server's, may stand in its place:

     await engine.begin(inputs)    Float32Array, the input without the batch
     await engine.step()           { step, output, score, signals }: y_t, the score's logit, signals by name         */

const SPECIAL = { Infinity: Infinity, "-Infinity": -Infinity, NaN: NaN };

function constantsOf(program, bytes) {
  const weights = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
  return program.constants.map(([shape, offset, value]) => {
    const size = sizeOf(shape);
    const data = offset < 0 ? new Float32Array(size).fill(number(value)) : weights.subarray(offset, offset + size);
    return { shape, data };
  });
}

const number = (value) => (typeof value === "string" && value in SPECIAL ? SPECIAL[value] : value);

/* Arguments as stored: "$3" is value 3 of the graph, "#3" constant 3, other things stand for themselves. */
function resolver(argument, constants) {
  if (Array.isArray(argument)) {
    const parts = argument.map((part) => resolver(part, constants));
    return (values) => parts.map((part) => part(values));
  }
  const place = typeof argument === "string" ? +argument.slice(1) : -1;
  if (place >= 0 && argument[0] === "$") return (values) => values[place];
  const plain = place >= 0 && argument[0] === "#" ? constants[place] : number(argument);
  return () => plain;
}

function graphOf(graph, constants) {
  const nodes = graph.nodes.map(([name, outs, shapes, args]) => {
    const parts = args.map((argument) => resolver(argument, constants));
    return { run: OPERATORS[name], outs, shapes, parts };
  });
  const results = graph.outputs.map((output) => resolver(output, constants));
  return (inputs) => {
    const values = inputs.slice();
    for (const node of nodes) {
      const found = node.run(node.shapes, ...node.parts.map((part) => part(values)));
      node.outs.forEach((out, i) => { if (out >= 0) values[out] = { shape: node.shapes[i], data: found[i] }; });
    }
    return results.map((result) => result(values));
  };
}

function localEngine(program, bytes, signalNames) {
  const constants = constantsOf(program, bytes), first = graphOf(program.begin, constants);
  const next = program.steps.map((graph) => graphOf(graph, constants));
  let taken = 0, inputs = null, state = [], reader = null;
  return {
    begin(values) {
      inputs = { shape: program.input, data: values };
      taken = 0;
      state = [];
      reader = signalReader(signalNames);
    },
    step() {
      const before = state[0];
      const [output, score, ...tensors] = taken === 0 ? first([inputs]) : next[Math.min(taken, next.length) - 1](state);
      state = tensors;
      taken += 1;
      const signals = reader({ step: taken, output: output.data, classes: output.shape[output.shape.length - 1],
        score: score.data[0], hidden: state[0].data, before: before ? before.data : null });
      return { step: taken, output: output.data, score: score.data[0], signals };
    },
  };
}

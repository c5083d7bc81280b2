"use strict";
/* Products of matrices, and convolutions by way of them. */

/* c (m, n) += a (m, k) · b (k, n), in tiles of 4 rows by 4 columns; b is packed so that a tile reads it in order. */
function product(m, k, n, a, aStart, b, bStart, c, cStart) {
  const packed = new Float64Array(4 * k), whole = n - (n % 4), wholeRows = m - (m % 4);
  for (let j = 0; j < n; j += 4) {
    const width = j < whole ? 4 : n - j;
    for (let p = 0, to = 0, from = bStart + j; p < k; p++, to += 4, from += n) {
      for (let q = 0; q < width; q++) packed[to + q] = b[from + q];
    }
    for (let i = 0; i < m; i += 4) {
      if (width === 4 && i < wholeRows) tile(k, a, aStart + i * k, packed, c, cStart + i * n + j, n);
      else edge(k, a, aStart + i * k, Math.min(4, m - i), packed, width, c, cStart + i * n + j, n);
    }
  }
}

function tile(k, a, row, packed, c, at, n) {
  let r1 = row + k, r2 = r1 + k, r3 = r2 + k;
  let s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  let s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
  for (let p = 0, q = 0; p < k; p++, q += 4) {
    const b0 = packed[q], b1 = packed[q + 1], b2 = packed[q + 2], b3 = packed[q + 3];
    const a0 = a[row + p], a1 = a[r1 + p], a2 = a[r2 + p], a3 = a[r3 + p];
    s00 += a0 * b0; s01 += a0 * b1; s02 += a0 * b2; s03 += a0 * b3;
    s10 += a1 * b0; s11 += a1 * b1; s12 += a1 * b2; s13 += a1 * b3;
    s20 += a2 * b0; s21 += a2 * b1; s22 += a2 * b2; s23 += a2 * b3;
    s30 += a3 * b0; s31 += a3 * b1; s32 += a3 * b2; s33 += a3 * b3;
  }
  c[at] += s00; c[at + 1] += s01; c[at + 2] += s02; c[at + 3] += s03; at += n;
  c[at] += s10; c[at + 1] += s11; c[at + 2] += s12; c[at + 3] += s13; at += n;
  c[at] += s20; c[at + 1] += s21; c[at + 2] += s22; c[at + 3] += s23; at += n;
  c[at] += s30; c[at + 1] += s31; c[at + 2] += s32; c[at + 3] += s33;
}

function edge(k, a, row, rows, packed, width, c, at, n) {
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < width; j++) {
      let sum = 0;
      for (let p = 0; p < k; p++) sum += a[row + i * k + p] * packed[4 * p + j];
      c[at + i * n + j] += sum;
    }
  }
}

function bmm(shapes, a, b) {
  const [count, m, k] = a.shape, n = b.shape[2], out = new Float32Array(count * m * n);
  for (let i = 0; i < count; i++) product(m, k, n, a.data, i * m * k, b.data, i * k * n, out, i * m * n);
  return [out];
}

function mm(shapes, a, b) {
  const out = new Float32Array(sizeOf(shapes[0]));
  product(a.shape[0], a.shape[1], b.shape[1], a.data, 0, b.data, 0, out, 0);
  return [out];
}

/* Every place of the kernel as a row of what it sees, (c·kernel, positions); 1, 2 or 3 dimensions as 3. */
function unfolded(data, start, channels, size, kernel, out, stride, padding, dilation) {
  const positions = out[0] * out[1] * out[2], columns = new Float32Array(channels * sizeOf(kernel) * positions);
  let row = 0;
  for (let c = 0; c < channels; c++) {
    const base = start + c * size[0] * size[1] * size[2];
    for (let place = 0; place < sizeOf(kernel); place++) {
      const kx = place % kernel[2], ky = Math.floor(place / kernel[2]) % kernel[1];
      const kz = Math.floor(place / kernel[2] / kernel[1]);
      let to = row++ * positions;
      for (let oz = 0; oz < out[0]; oz++) {
        const z = oz * stride[0] - padding[0] + kz * dilation[0];
        for (let oy = 0; oy < out[1]; oy++, to += out[2]) {
          const y = oy * stride[1] - padding[1] + ky * dilation[1];
          if (z < 0 || z >= size[0] || y < 0 || y >= size[1]) continue;
          const from = base + (z * size[1] + y) * size[2];
          for (let ox = 0, x = kx * dilation[2] - padding[2]; ox < out[2]; ox++, x += stride[2]) {
            if (x >= 0 && x < size[2]) columns[to + ox] = data[from + x];
          }
        }
      }
    }
  }
  return columns;
}

function convolution(shapes, x, weight, bias, stride, padding, dilation, transposed, outputPadding, groups) {
  const shape = shapes[0], rank = shape.length - 2, three = (list, fill) => [...Array(3 - rank).fill(fill), ...list];
  const kernel = three(weight.shape.slice(2), 1), size = three(x.shape.slice(2), 1), out = three(shape.slice(2), 1);
  const channels = weight.shape[1], filters = shape[1] / groups, k = channels * sizeOf(kernel), n = sizeOf(out);
  const data = new Float32Array(sizeOf(shape));
  if (bias) for (let f = 0; f < shape[1]; f++) data.fill(bias.data[f], f * n, (f + 1) * n);
  for (let g = 0; g < groups; g++) {
    const columns = unfolded(x.data, g * channels * sizeOf(size), channels, size, kernel, out,
      three(stride, 1), three(padding, 0), three(dilation, 1));
    product(filters, k, n, weight.data, g * filters * k, columns, 0, data, g * filters * n);
  }
  return [data];
}

Object.assign(OPERATORS, {
  bmm, mm, convolution,
  addmm: (shapes, bias, a, b) => OPERATORS.add(shapes, { shape: shapes[0], data: mm(shapes, a, b)[0] }, bias),
});

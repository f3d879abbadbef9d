// Buffers of 1 MiB: 64 live ones, of which one is replaced at each of 6,000 steps.
const live = new Array(64).fill(null);
let total = 0;
for (let step = 0; step < 6000; step++) {
  const buffer = Buffer.allocUnsafe(1 << 20);
  buffer.fill(step & 255);
  const at = (step * 7919) % live.length;
  if (live[at]) total += live[at][step];
  live[at] = buffer;
}
console.log(total);

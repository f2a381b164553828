// Loaded before a worker (`node --import`), on each of its threads: what the process stands still is not counted by its monotonic
// clock, as on Linux when the machine is suspended. The wall clock and the uptime go on.
const real = performance.now.bind(performance);
let lastMs = real();
let stoodStillMs = 0;
performance.now = () => {
  const nowMs = real();
  if (nowMs - lastMs > 1_000) stoodStillMs += nowMs - lastMs;
  lastMs = nowMs;
  return nowMs - stoodStillMs;
};
setInterval(() => performance.now(), 20).unref();

// The suite gives a server half a second for some of its answers, which a busy machine needs for itself.
const own = globalThis.setTimeout;
globalThis.setTimeout = Object.assign(
  (work, delay, ...more) => own(work, delay >= 400 && delay <= 10_000 ? delay * 10 : delay, ...more),
  own,
);
const limit = AbortSignal.timeout.bind(AbortSignal);
AbortSignal.timeout = (delay) => limit(delay * 10);

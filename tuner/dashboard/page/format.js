// Numbers with their units, as one reads them.

const locale = "en";

export function count(n) {
  return (n ?? 0).toLocaleString(locale);
}

// digits is n with so many significant digits, and no fewer than its whole part has.
export function digits(n, significant = 3) {
  if (!Number.isFinite(n)) return "unknown";
  return n.toLocaleString(locale, { maximumSignificantDigits: Math.max(significant, Math.trunc(Math.abs(n)).toString().length) });
}

function scaled(n, units, step = 1000) {
  let i = 0;
  while (n >= step && i < units.length - 1) {
    n /= step;
    i++;
  }
  return `${digits(n)} ${units[i]}`;
}

export const bytes = (n) => (n > 0 ? scaled(n, ["B", "kB", "MB", "GB", "TB"]) : "unknown");
export const byteRate = (n) => (n > 0 ? scaled(n, ["B/s", "kB/s", "MB/s", "GB/s", "TB/s"]) : "unknown");
export const opRate = (n) => (n > 0 ? scaled(n, ["op/s", "kop/s", "Mop/s", "Gop/s", "Top/s"]) : "unknown");
export const cacheBytes = (n) => (n > 0 ? scaled(n, ["B", "KiB", "MiB", "GiB"], 1024) : "unknown");

export const percent = (share, places = 0) => `${(100 * share).toFixed(places)} %`;
export const times = (ratio) => `${ratio.toFixed(3)}×`;
export const tokens = (rate) => (rate > 0 ? `${digits(rate)} tok/s` : "not measured");

// interval is "2.239 to 2.423 (99 %)"; a ratio without one has had too few samples.
export function interval(ratio) {
  if (!(ratio.low > 0)) return "no interval: too few samples";
  const sure = ratio.confidence > 0 ? ` (${+(100 * ratio.confidence).toFixed(1)} %)` : "";
  return `${ratio.low.toFixed(3)} to ${ratio.high.toFixed(3)}${sure}`;
}

// seconds is "1 h 5 min", "3 min 20 s", "1.5 s".
export function seconds(n) {
  if (!Number.isFinite(n)) return "unknown";
  if (n < 10) return `${digits(n, 2)} s`;
  const whole = Math.round(n);
  const parts = [[Math.floor(whole / 86400), "d"], [Math.floor(whole / 3600) % 24, "h"], [Math.floor(whole / 60) % 60, "min"], [whole % 60, "s"]];
  const first = parts.findIndex(([v]) => v > 0);
  return parts.slice(first, first + 2).filter(([v]) => v > 0).map(([v, unit]) => `${v} ${unit}`).join(" ");
}

export const words = (name) => String(name ?? "").replaceAll("_", " ");

// known is false for the zero time of Go, and for none.
export const known = (time) => Boolean(time) && !time.startsWith("0001-");

// relative is "in 3 min", "20 s ago".
export function relative(time, now = Date.now()) {
  const off = (Date.parse(time) - now) / 1000, size = Math.abs(off);
  if (size < 5 || (off > 0 && off < 60)) return "now"; // clocks differ by some seconds
  const [n, unit] = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]].find(([n]) => size >= n);
  const text = `${Math.floor(size / n)} ${unit}`;
  return off > 0 ? `in ${text}` : `${text} ago`;
}

export function exact(time) {
  return new Date(time).toLocaleString(locale, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
}

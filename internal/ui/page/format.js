// Numbers and times as text.

const prefixes = ["", "k", "M", "G", "T", "P"];

// significant writes v with the given digits, without an exponent or trailing zeros.
function significant(v, digits) {
  const s = Number(v.toPrecision(digits));
  return Math.abs(s) >= 1e15 ? s.toExponential(2) : String(s);
}

// number is a plain number of about four digits.
export function number(v, digits = 4) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a === 0) return "0";
  if (a >= 1e5) return scaled(v, 1000, digits);
  if (a < 1e-3) return v.toExponential(Math.min(2, digits - 1)).replace(/\.?0+e/, "e");
  return significant(v, digits);
}

// scaled divides by powers of base, with a prefix.
function scaled(v, base, digits = 4) {
  let i = 0;
  while (Math.abs(v) >= base * 0.99995 && i < prefixes.length - 1) {
    v /= base;
    i++;
  }
  return significant(v, digits) + (prefixes[i] ? " " + prefixes[i] : " ");
}

// integer has thousands separators.
export const integer = (v) => (v === null || v === undefined || !Number.isFinite(v) ? "–" : Math.round(v).toLocaleString("en-US"));

// bytes uses powers of 1024.
export function bytes(v) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const s = scaled(v, 1024, 3);
  return s.endsWith(" ") ? s + "B" : s.replace("k", "K") + "iB";
}

// seconds picks one or two units.
export function seconds(v, digits = 3) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  const a = Math.abs(v);
  if (a === 0) return "0 s";
  if (a < 1e-3) return significant(v * 1e6, digits) + " µs";
  if (a < 1) return significant(v * 1e3, digits) + " ms";
  if (a < 120) return significant(v, digits) + " s";
  return duration(v);
}

// duration is a length of time of minutes or more.
export function duration(v) {
  if (!Number.isFinite(v)) return "–";
  const s = Math.round(Math.abs(v));
  const sign = v < 0 ? "-" : "";
  if (s < 60) return `${sign}${s}s`;
  const m = Math.floor(s / 60);
  if (m < 60) return `${sign}${m}m` + (s % 60 ? ` ${s % 60}s` : "");
  const hours = Math.floor(m / 60);
  if (hours < 48) return `${sign}${hours}h` + (m % 60 ? ` ${m % 60}m` : "");
  return `${sign}${Math.floor(hours / 24)}d` + (hours % 24 ? ` ${hours % 24}h` : "");
}

// ago is the age of a time in Unix seconds.
export function ago(t, now = Date.now() / 1000) {
  if (!t) return "";
  const d = now - t;
  return d < 5 ? "now" : (d < 60 ? `${Math.round(d)}s` : duration(d).split(" ")[0]) + " ago";
}

const pad = (n) => String(n).padStart(2, "0");

// clock is the local time of day, with the date if span seconds are longer than a day.
export function clock(t, span = 0) {
  const d = new Date(t * 1000);
  const day = `${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}`;
  if (span > 5 * 86400) return day;
  if (span > 86400) return `${day} ${time}`;
  return span > 0 && span < 600 ? `${time}:${pad(d.getSeconds())}` : time;
}

// moment is a date with its time.
export function moment(t) {
  const d = new Date(t * 1000);
  return `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())} ${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
}

const units = [
  [/^(memory|memory_peak)[./]|^rss|memory_limit|memory_used|memory_total|memory_available|disk_free|(^|[./])bytes$/, "B"],
  [/(disk|net)_\w+_per_second$/, "B/s"],
  [/flops_per_second$|peak_flops$/, "FLOP/s"],
  [/tokens_per_second$/, "tokens/s"],
  [/samples_per_second$/, "samples/s"],
  [/(_fraction|^mfu|accuracy|macro_f1|utilization)$/, "%"],
  [/seconds|^split[./]|^ranks[./]/, "s"],
  [/_watts$/, "W"],
  [/temperature_c$/, "°C"],
];

// unit returns the unit of a metric by its name; "" for a plain number.
export function unit(metric) {
  for (const [re, u] of units) if (re.test(metric)) return u;
  return "";
}

// value writes v in the unit of a metric.
export function value(v, u, digits = 4) {
  if (v === null || v === undefined || !Number.isFinite(v)) return "–";
  switch (u) {
    case "B": return bytes(v);
    case "B/s": return bytes(v) + "/s";
    case "s": return seconds(v, digits);
    case "%": return significant(v * 100, Math.min(3, digits)) + "%";
    case "FLOP/s": return scaled(v, 1000, 3) + "FLOP/s";
    case "": return number(v, digits);
    case "W": case "°C": return significant(v, 3) + " " + u;
  }
  return Math.abs(v) >= 1e4 ? scaled(v, 1000, 3).trimEnd() : significant(v, 4);
}

// axis returns how an axis of a chart writes its ticks.
export function axis(name, span) {
  switch (name) {
    case "time": return (v) => (span < 120 ? significant(v, 4) + "s" : duration(v));
    case "wall": return (v) => clock(v, span);
  }
  return (v) => (Math.abs(v) >= 1e4 ? scaled(v, 1000, 6).replace(" ", "") : significant(v, 6));
}

// position writes one value of an axis in full.
export function position(name, v) {
  switch (name) {
    case "time": return v < 120 ? seconds(v, 4) : duration(v);
    case "wall": return moment(v);
    case "tokens": return integer(v) + " tokens";
  }
  return "step " + integer(v);
}

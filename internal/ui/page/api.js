// Calls of the server. Every answer names its schema; one of another version is an error, and a reload mends it.

export async function get(path, params, signal) {
  const q = new URLSearchParams();
  for (const [k, v] of Object.entries(params || {})) {
    for (const one of Array.isArray(v) ? v : [v]) if (one !== null && one !== undefined) q.append(k, one);
  }
  const r = await fetch(`api/${path}?${q}`, { signal });
  const body = await r.json().catch(() => ({}));
  if (!r.ok) throw new Error(body.error || `the server answered ${r.status}`);
  if (body.schema !== `trireme.ui.${path}/1`) throw new Error("this page and its server have different versions: reload the page");
  return body;
}

// live calls onruns with the rows that changed, and onstate with whether the connection is up.
export function live(onruns, onstate) {
  const source = new EventSource("api/live");
  source.addEventListener("runs", (e) => onruns(JSON.parse(e.data)));
  source.onopen = () => onstate(true);
  source.onerror = () => onstate(false);
  addEventListener("pagehide", () => source.close());
}

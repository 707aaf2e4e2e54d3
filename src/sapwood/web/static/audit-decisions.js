// Decisions on the findings of an audit: kept in the browser, exported for `--apply` and as a patch.

const FORMAT = "audit decisions 2";

export const nParts = (finding) => Math.max(1, finding.parts?.length ?? 0);

// The decision on a finding from those on its parts, null for none: accepted where some part is.
function overall(made) {
  if (made.includes("accept")) return "accept";
  if (made.includes(null)) return null;
  return made.includes("reject") ? "reject" : "skip";
}

// The decisions of a report, by the ids of findings: one for all parts of a finding, or a list with one for each.
// A browser that allows no storage keeps the decisions until the page is closed.
export class Decisions {
  constructor(name, findings) {
    this.name = `sapwood-audit:${name}`;
    this.made = {};
    this.isKept = true;
    const known = new Map(findings.map((finding) => [finding.id, nParts(finding)]));
    try {
      const kept = Object.entries(JSON.parse(localStorage.getItem(this.name) ?? "{}"));
      const isWhole = ([id, made]) => !Array.isArray(made) || made.length === known.get(id);
      this.made = Object.fromEntries(kept.filter(([id]) => known.has(id)).filter(isWhole));
    } catch {
      this.isKept = false;
    }
  }

  of(id) {
    const made = this.made[id] ?? null;
    return Array.isArray(made) ? overall(made) : made;
  }

  // The decision on each part of a finding.
  ofParts(finding) {
    const made = this.made[finding.id] ?? null;
    return Array.isArray(made) ? made : Array(nParts(finding)).fill(made);
  }

  // Whether parts of a finding have different decisions.
  isMixed(id) {
    return Array.isArray(this.made[id]);
  }

  // decision: accept, reject, skip, or null for none; on all parts.
  set(id, decision) {
    if (decision === null) delete this.made[id];
    else this.made[id] = decision;
    this.keep();
  }

  setPart(finding, index, decision) {
    const made = [...this.ofParts(finding)];
    made[index] = decision;
    if (made.some((one) => one !== decision)) this.made[finding.id] = made;
    else if (decision === null) delete this.made[finding.id];
    else this.made[finding.id] = decision;
    this.keep();
  }

  keep() {
    try {
      localStorage.setItem(this.name, JSON.stringify(this.made));
    } catch {
      this.isKept = false;
    }
  }

  count(decision) {
    return Object.keys(this.made).filter((id) => this.of(id) === decision).length;
  }
}

// The file that `sapwood audit --apply` reads.
export function decisionsFile(report, decisions) {
  const rows = report.findings.filter((finding) => finding.id in decisions.made);
  return JSON.stringify(
    {
      sapwood: FORMAT,
      files: report.files ?? {},
      decisions: rows.map((finding) => ({
        id: finding.id,
        file: finding.file,
        line: finding.line,
        tree: finding.tree,
        decision: decisions.of(finding.id) ?? "skip",
        annotated_tree: finding.annotated_tree,
        suggested_tree: finding.suggested_tree,
        ...(decisions.isMixed(finding.id) ? { parts: partsOf(finding, decisions) } : {}),
      })),
    },
    null,
    1,
  );
}

// A part without a decision is skipped.
const partsOf = (finding, decisions) =>
  decisions.ofParts(finding).map((made, k) => ({
    decision: made ?? "skip",
    kind: finding.parts[k].kind,
    edit: finding.parts[k].edit,
  }));

// The patch of some parts of a finding; null where these cannot be corrected without the others. Replacements
// count characters as Python does, which are not always those of JavaScript.
function patchOfParts(finding, made) {
  const known = finding.part_patches;
  const accepted = made.flatMap((one, k) => (one === "accept" ? [k] : []));
  if (!known?.sets.some((some) => some.join() === accepted.join())) return null;
  const pieces = accepted.flatMap((k) => known.parts[k]);
  pieces.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const characters = [...known.old.join("")];
  let at = 0;
  let text = "";
  for (const [start, end, now] of pieces) {
    text += characters.slice(at, start).join("") + now;
    at = end;
  }
  text += characters.slice(at).join("");
  return { line: known.line, old: known.old, new: text.match(/[^\n]*\n|[^\n]+/g) ?? [] };
}

// A unified diff of all accepted findings, without lines of context; and how many are not in it, because the
// accepted parts need others, their lines are not known, or another correction has changed them already.
export function patchOf(report, decisions) {
  const files = new Map();
  let nOmitted = 0;
  for (const finding of report.findings) {
    if (decisions.of(finding.id) !== "accept") continue;
    const patch = decisions.isMixed(finding.id)
      ? patchOfParts(finding, decisions.ofParts(finding))
      : finding.patch;
    if (!patch) nOmitted += 1;
    else if (files.has(finding.file)) files.get(finding.file).push(patch);
    else files.set(finding.file, [patch]);
  }
  const parts = [];
  for (const [file, hunks] of files) {
    hunks.sort((a, b) => a.line - b.line);
    const kept = hunks.filter((hunk, k) => k === 0 || hunk.line >= endOf(hunks[k - 1]));
    nOmitted += hunks.length - kept.length;
    parts.push(`--- ${file}\n+++ ${file}\n`, ...textOf(kept));
  }
  return { text: parts.join(""), nOmitted };
}

const endOf = (hunk) => hunk.line + hunk.old.length;

function textOf(hunks) {
  let moved = 0; // lines that the hunks so far have added
  return hunks.map(({ line, old, new: now }) => {
    const head = `@@ -${line},${old.length} +${line + moved},${now.length} @@\n`;
    moved += now.length - old.length;
    return (
      head + old.map((text) => markLine("-", text)).join("") + now.map((text) => markLine("+", text)).join("")
    );
  });
}

// Lines carry their ends; the last of a file may have none.
const markLine = (sign, text) =>
  text.endsWith("\n") ? sign + text : `${sign}${text}\n\\ No newline at end of file\n`;

// Decisions on the findings of an audit: kept in the browser, exported for `--apply` and as a patch.

const FORMAT = "audit decisions 1";

// The decisions of a report, by the ids of findings. Where the browser keeps nothing they last as long as the page.
export class Decisions {
  constructor(name, findings) {
    this.name = `sapwood-audit:${name}`;
    this.made = {};
    this.isKept = true;
    const known = new Set(findings.map((finding) => finding.id));
    try {
      const kept = Object.entries(JSON.parse(localStorage.getItem(this.name) ?? "{}"));
      this.made = Object.fromEntries(kept.filter(([id]) => known.has(id)));
    } catch {
      this.isKept = false;
    }
  }

  of(id) {
    return this.made[id] ?? null;
  }

  // decision: accept, reject, skip, or null for none.
  set(id, decision) {
    if (decision === null) delete this.made[id];
    else this.made[id] = decision;
    try {
      localStorage.setItem(this.name, JSON.stringify(this.made));
    } catch {
      this.isKept = false;
    }
  }

  count(decision) {
    return Object.values(this.made).filter((made) => made === decision).length;
  }
}

// The file that `sapwood audit --apply` reads.
export function decisionsFile(report, decisions) {
  const rows = report.findings.filter((finding) => decisions.of(finding.id) !== null);
  return JSON.stringify(
    {
      sapwood: FORMAT,
      files: report.files ?? {},
      decisions: rows.map((finding) => ({
        id: finding.id,
        file: finding.file,
        line: finding.line,
        tree: finding.tree,
        decision: decisions.of(finding.id),
        annotated_tree: finding.annotated_tree,
        suggested_tree: finding.suggested_tree,
      })),
    },
    null,
    1,
  );
}

// A unified diff of all accepted findings, without lines of context; and how many are not in it, because
// their lines are not known or another correction has changed them already.
export function patchOf(report, decisions) {
  const files = new Map();
  let nOmitted = 0;
  for (const finding of report.findings) {
    if (decisions.of(finding.id) !== "accept") continue;
    if (!finding.patch) nOmitted += 1;
    else if (files.has(finding.file)) files.get(finding.file).push(finding.patch);
    else files.set(finding.file, [finding.patch]);
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

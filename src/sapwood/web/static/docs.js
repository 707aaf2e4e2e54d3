// The JSON API, from its own schema.

import { failure, h, put } from "/static/dom.js";

const main = document.getElementById("main");
const nameOf = (reference) => reference.split("/").at(-1);

function typeOf(schema) {
  if (!schema) return "";
  if (schema.$ref) return nameOf(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(typeOf).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.prefixItems) return `[${schema.prefixItems.map(typeOf).join(", ")}]`;
  if (schema.additionalProperties) return `object of ${typeOf(schema.additionalProperties)}`;
  if (schema.type === "array") return `list of ${typeOf(schema.items)}`;
  const bounds = [schema.minimum ?? schema.exclusiveMinimum, schema.maximum ?? schema.exclusiveMaximum];
  const range = bounds.some((one) => one !== undefined) ? ` ${bounds[0] ?? ""}…${bounds[1] ?? ""}` : "";
  return `${schema.type ?? "anything"}${range}`;
}

function fieldsOf(schema) {
  const needed = new Set(schema.required ?? []);
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      {},
      h(
        "tbody",
        {},
        Object.entries(schema.properties ?? {}).map(([name, field]) =>
          h(
            "tr",
            {},
            h("td", {}, h("code", {}, name)),
            h("td", {}, typeOf(field)),
            h(
              "td",
              {},
              needed.has(name)
                ? "needed"
                : field.default !== undefined && field.default !== null
                  ? `else ${JSON.stringify(field.default)}`
                  : "optional",
            ),
            h("td", {}, field.description ?? ""),
          ),
        ),
      ),
    ),
  );
}

function routeOf(path, verb, route, schemas) {
  const body = Object.values(route.requestBody?.content ?? {})[0]?.schema;
  const answer = route.responses?.["200"]?.content?.["application/json"]?.schema;
  const example = body?.$ref
    ? `curl -H 'Content-Type: application/json' -d '{…}' ${location.origin}${path}`
    : null;
  return h(
    "section",
    { class: "route", id: route.operationId },
    h("h3", {}, h("code", {}, h("span", { class: "verb" }, verb.toUpperCase()), ` ${path}`)),
    h("p", {}, route.description ?? route.summary ?? ""),
    body?.$ref
      ? [h("p", { class: "small" }, "Takes"), fieldsOf(schemas[nameOf(body.$ref)])]
      : route.requestBody
        ? h("p", { class: "small" }, "Takes the bytes of a file, as application/octet-stream")
        : null,
    answer?.$ref ? [h("p", { class: "small" }, "Gives"), fieldsOf(schemas[nameOf(answer.$ref)])] : null,
    example ? h("pre", { class: "source" }, example) : null,
  );
}

try {
  const schema = await (await fetch("/api/openapi.json")).json();
  const groups = new Map();
  for (const [path, verbs] of Object.entries(schema.paths))
    for (const [verb, route] of Object.entries(verbs)) {
      const tag = route.tags?.[0] ?? "other";
      groups.set(tag, [...(groups.get(tag) ?? []), routeOf(path, verb, route, schema.components.schemas)]);
    }
  put(
    main,
    h("h1", {}, "JSON API"),
    h("p", { class: "lead" }, schema.info.description.replaceAll("`", "")),
    ...[...groups].map(([tag, routes]) => h("section", { class: "card" }, h("h2", {}, tag), routes)),
    h(
      "p",
      { class: "facts" },
      "The schema itself: ",
      h("a", { href: "/api/openapi.json" }, "/api/openapi.json"),
    ),
  );
} catch (error) {
  put(main, failure(error));
}

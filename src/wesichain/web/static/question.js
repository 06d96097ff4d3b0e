// A question of a server in the middle of a call, with a form for its answer: a field per property.

import { h, jsonText } from "./dom.js";

const INPUTS = { email: "email", uri: "url", date: "date" };

// The form; `onAnswer` is called with the values, `onDecline` if the user declines.
export function questionForm({ message, schema }, { onAnswer, onDecline, button }) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties ?? {}).map(([name, given]) => field(name, resolved(given, schema), required.has(name)));
  return h("form", { class: "question", onsubmit: (event) => {
    event.preventDefault();
    const answer = {};
    for (const { name, read } of fields) {
      const value = read();
      if (value !== undefined) answer[name] = value;
    }
    onAnswer(answer);
  } },
  h("p", { class: "asked" }, message), fields.map((one) => one.root),
  h("div", { class: "decide" }, button("Answer", "approve", null, "submit"), button("Decline", "refuse", onDecline)));
}

// Resolves a reference in the schema, and a union with null to its other type.
function resolved(given, schema, depth = 0) {
  const place = typeof given.$ref === "string" ? /^#\/(\$defs|definitions)\/([^/]+)$/.exec(given.$ref) : null;
  const choices = given.anyOf?.filter((one) => one.type !== "null");
  const next = place ? schema[place[1]]?.[place[2]] : given.allOf?.length === 1 ? given.allOf[0] : choices?.length === 1 ? choices[0] : null;
  if (!next || depth > 8) return given;
  const { $ref, allOf, anyOf, ...rest } = given;
  return { ...resolved(next, schema, depth + 1), ...rest };
}

// The options with their names; null for free text.
function choicesOf(one) {
  if (one.type === "boolean") return [[true, "yes"], [false, "no"]];
  if (Array.isArray(one.enum)) return one.enum.map((value, at) => [value, one.enumNames?.[at] ?? jsonText(value, 0)]);
  const named = one.oneOf ?? one.anyOf;
  return named?.every((each) => "const" in each) ? named.map((each) => [each.const, each.title ?? jsonText(each.const, 0)]) : null;
}

function field(name, one, isRequired) {
  const label = [one.title ?? name, isRequired ? "" : " (optional)"];
  const hint = one.description ? h("span", { class: "quiet" }, one.description) : null;
  const labelled = (input, read) => ({ name, read, root: h("label", null, label, hint, input) });
  const choices = choicesOf(one);
  if (choices) {
    const select = h("select", { name, required: isRequired }, h("option", { value: "" }, ""), choices.map(([, text], at) => h("option", { value: at }, text)));
    const known = choices.findIndex(([value]) => value === one.default);
    select.value = known < 0 ? "" : String(known);
    return labelled(select, () => (select.value === "" ? undefined : choices[select.value][0]));
  }
  const several = one.type === "array" && one.items ? choicesOf(one.items) : null;
  if (several) {
    const boxes = several.map(([value, text]) => [value, h("input", { type: "checkbox", name, checked: one.default?.includes(value) }), text]);
    const root = h("fieldset", null, h("legend", null, label), hint, boxes.map(([, box, text]) => h("label", { class: "switch" }, box, ` ${text}`)));
    return { name, root, read: () => boxes.filter(([, box]) => box.checked).map(([value]) => value) };
  }
  if (one.type === "number" || one.type === "integer") {
    const input = h("input", { type: "number", name, required: isRequired, min: one.minimum, max: one.maximum, step: one.type === "integer" ? 1 : "any", value: one.default });
    return labelled(input, () => (input.value === "" ? undefined : Number(input.value)));
  }
  if (one.type === "string") {
    const input = h("input", { type: INPUTS[one.format] ?? "text", name, required: isRequired, minlength: one.minLength, maxlength: one.maxLength, value: one.default,
      placeholder: one.format === "date-time" ? "2030-01-31T12:00:00Z" : null });
    return labelled(input, () => (input.value === "" && !isRequired ? undefined : input.value));
  }
  const area = h("textarea", { name, rows: 3, spellcheck: "false", required: isRequired, placeholder: "JSON" });
  if (one.default !== undefined) area.value = jsonText(one.default);
  area.addEventListener("input", () => area.setCustomValidity(isJson(area.value) ? "" : "This is not JSON."));
  return labelled(area, () => (area.value.trim() === "" ? undefined : JSON.parse(area.value)));
}

function isJson(text) {
  try {
    JSON.parse(text.trim() || "null");
    return true;
  } catch {
    return false;
  }
}

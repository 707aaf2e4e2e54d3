// Rules for the JavaScript of the page and of the documentation site; `make check` applies them.

import js from "@eslint/js";
import globals from "globals";

export default [
  { ignores: [".venv/**", "build/**"] },
  js.configs.recommended,
  {
    languageOptions: { ecmaVersion: 2022, sourceType: "module", globals: globals.browser },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      eqeqeq: "error",
      "max-lines": ["error", 400],
      "max-lines-per-function": ["error", 100],
      "no-unused-vars": ["error", { ignoreRestSiblings: true }],
      "no-var": "error",
      "one-var": ["error", "never"],
      "prefer-const": "error",
    },
  },
  { files: ["docs/**"], languageOptions: { sourceType: "script" } },
];

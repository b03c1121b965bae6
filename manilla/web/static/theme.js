// Before the first paint: light or dark, as the reader's system says.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", show);
  show();
})();

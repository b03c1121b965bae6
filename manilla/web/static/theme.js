// Sets the light or dark theme from the system's preference, before the first paint.
"use strict";
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const show = () => { document.documentElement.dataset.bsTheme = dark.matches ? "dark" : "light"; };
  dark.addEventListener("change", show);
  show();
})();

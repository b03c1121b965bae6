(() => {
  "use strict";
  const settings = window.wc.wcSettings.getSetting("manilla_data", {});
  const text = (name) => window.wp.htmlEntities.decodeEntities(settings[name] || "");
  const content = window.wp.element.createElement("div", null, text("description"));
  window.wc.wcBlocksRegistry.registerPaymentMethod({
    name: "manilla",
    label: text("title"),
    ariaLabel: text("title"),
    content,
    edit: content,
    canMakePayment: () => true,
    supports: { features: settings.supports || [] },
  });
})();

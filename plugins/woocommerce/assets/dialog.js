// Opens checkout in a dialog. The shop verifies the payment after each return, whatever the dialog says.
(() => {
  "use strict";
  const link = document.getElementById("manilla-pay");
  if (!link || !window.Manilla) return; // The link leads to checkout.
  const open = () => {
    window.Manilla.open({
      url: link.href,
      onClose: ({ status }) => {
        if (status !== "pending") location.assign(link.dataset.return);
      },
    });
  };
  link.addEventListener("click", (event) => {
    event.preventDefault();
    open();
  });
  open();
})();

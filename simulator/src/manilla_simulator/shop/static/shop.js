// Opens checkout in a dialog on the shop's page. Without this script, the form leads to checkout.
"use strict";

(() => {
  const result = document.querySelector("[data-result]");

  async function buy(form) {
    const body = new URLSearchParams(new FormData(form));
    const headers = { Accept: "application/json" };
    const response = await fetch(form.action, { method: "POST", body, headers }).catch(() => null);
    if (!response?.ok) {
      result.textContent = "The order failed. Please try again.";
      return;
    }
    const { order_url: orderUrl, payment_url: paymentUrl } = await response.json();
    if (window.Manilla && new URL(paymentUrl).origin === location.origin) {
      // The order page shows what the server knows, so this script ignores the reported status.
      Manilla.open({ url: paymentUrl, onClose: () => { location.href = orderUrl; } });
    } else {
      location.href = paymentUrl;
    }
  }

  document.querySelectorAll("form[data-buy]").forEach((form) => {
    const button = form.querySelector("button");
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      result.textContent = "";
      button.disabled = true;
      await buy(form);
      button.disabled = false;
    });
  });
})();

// The dialogs: what an operator is about to do, and the token.

import { h, fill } from "./dom.js";
import { token } from "./api.js";
import { regimeName, setting } from "./parts.js";

const nameKey = "bitnet-autotune operator";

// open shows a dialog and calls submit with the values of its form until that succeeds. It resolves to what submit returned,
// or undefined where it was cancelled.
function open(dialog, submit) {
  const form = dialog.querySelector("form"), problem = dialog.querySelector(".problem"), buttons = dialog.querySelectorAll("button");
  const busy = (on) => buttons.forEach((b) => (b.disabled = on));
  return new Promise((resolve) => {
    let result;
    const stop = new AbortController(), { signal } = stop;
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      busy(true);
      fill(problem);
      try {
        result = await submit(Object.fromEntries(new FormData(form)));
        dialog.close();
      } catch (error) {
        fill(problem, error.message);
      }
      busy(false);
      if (dialog.open) dialog.querySelector(".go").focus();
    }, { signal });
    dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close(), { signal });
    dialog.addEventListener("close", () => {
      stop.abort();
      fill(problem);
      resolve(result);
    }, { signal });
    dialog.showModal();
  });
}

const acts = {
  pin: {
    title: "Pin", done: "pinned",
    says: (plan) => [
      h("p", {}, "What answers now stays the answer until it is unpinned, whatever is learned. The daemon leaves this model alone for as long: it neither tunes nor checks it."),
      plan.pinned_knobs?.length > 0 && h("p", {}, "The knobs that are pinned become part of it, and are not pinned any more once it is unpinned."),
      h("ul", {}, ["decode", "small_batch", "prefill"].filter((r) => plan.config[r]?.kernel).map((r) => h("li", {}, `${regimeName(r)}: `, h("code", {}, plan.config[r].kernel), ` ${setting(plan.config[r])}`))),
    ],
  },
  unpin: {
    title: "Unpin", done: "unpinned",
    says: () => [h("p", {}, "What was learned answers again, or the answer from facts alone where nothing was. The daemon tunes and checks this model again when the host is idle.")],
  },
  rollback: {
    title: "Roll back", done: "rolled back",
    says: () => [
      h("p", {}, "The config that was certified before answers again, or the default where there is none. What is taken back can return only by being certified anew, on fresh samples."),
      h("p", {}, "The measurements are kept. Services that ask for the config get the earlier one from now on."),
    ],
  },
};

// confirmAct says what would happen, and does it if that is wanted. It resolves to what was done, or undefined.
export function confirmAct(what, model, plan, run) {
  const dialog = document.getElementById("confirm"), { title, done, says } = acts[what];
  fill(document.getElementById("confirm-title"), `${title} ${model}?`);
  fill(document.getElementById("confirm-text"), says(plan));
  fill(document.getElementById("confirm-go"), title);
  const by = dialog.querySelector("[name=by]"), why = dialog.querySelector("[name=why]");
  by.value = sessionStorage.getItem(nameKey) ?? "web page";
  why.value = "";
  document.getElementById("confirm-why").hidden = why.disabled = what !== "rollback";
  return open(dialog, async (values) => {
    sessionStorage.setItem(nameKey, values.by);
    await run(what === "unpin" ? values : { ...values, config: plan.hash }); // what was shown, and no other
    return done;
  });
}

// askToken asks for the token and keeps it; false where it was not given.
export async function askToken(problem) {
  const dialog = document.getElementById("ask-token"), input = dialog.querySelector("input");
  input.value = "";
  const given = open(dialog, async (values) => {
    token.set(values.token.trim());
    return true;
  });
  if (problem) fill(dialog.querySelector(".problem"), problem);
  return (await given) ?? false;
}

// A key that is pasted in place of a link that is opened.
document.getElementById("login")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = document.getElementById("token").value.trim();
  const token = given.includes("token=") ? new URLSearchParams(given.split("?")[1]).get("token") : given;
  const answer = await fetch("/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
  });
  const told = await answer.json().catch(() => ({}));
  if (answer.ok) {
    localStorage.setItem("proof", told.proof);
    location.href = location.pathname === "/login" ? "/" : location.pathname;
  } else {
    const error = told.error || {};
    document.getElementById("login-problem").textContent = [error.what, error.fix].filter(Boolean).join(" ");
  }
});
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = localStorage.getItem("theme") || (dark ? "dark" : "light");

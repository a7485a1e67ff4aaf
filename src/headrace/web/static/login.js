// Login with a pasted key, instead of opening a link.
document.getElementById("login")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = document.getElementById("token").value.trim();
  const token = given.includes("token=") ? new URLSearchParams(given.split("?")[1]).get("token") : given;
  const response = await fetch("/login", {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ token }),
  });
  const json = await response.json().catch(() => ({}));
  if (response.ok) {
    localStorage.setItem("proof", json.proof);
    location.href = location.pathname === "/login" ? "/" : location.pathname;
  } else {
    const error = json.error || {};
    document.getElementById("login-problem").textContent = [error.what, error.fix].filter(Boolean).join(" ");
  }
});
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = localStorage.getItem("theme") || (dark ? "dark" : "light");

// Login with a pasted key, instead of opening a link. Afterwards the page that was asked for is shown.

/** The page to show then. An absolute URL: a path that begins with two slashes would lead to another site. */
function target() {
  const to = location.pathname === "/login" ? new URLSearchParams(location.search).get("to") || "/" : "";
  const here = location.origin + location.pathname + location.search;
  const wanted = URL.canParse(to, here) ? new URL(to, here) : null;
  return wanted?.origin === location.origin && wanted.pathname !== "/login" ? wanted.href : `${location.origin}/`;
}

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
    location.href = target();
  } else {
    const error = json.error || {};
    document.getElementById("login-problem").textContent = [error.what, error.fix].filter(Boolean).join(" ");
  }
});

// A browser does not send the cookie when a page of another site links here, such as a chat with a notice.
// A request from this page brings it. Once: without a login it leads back here.
const tried = "login-tried";
if (location.pathname !== "/login" && localStorage.getItem("proof") && sessionStorage.getItem(tried) !== target()) {
  sessionStorage.setItem(tried, target());
  location.replace(target());
}

const dark = matchMedia("(prefers-color-scheme: dark)").matches;
document.documentElement.dataset.theme = localStorage.getItem("theme") || (dark ? "dark" : "light");

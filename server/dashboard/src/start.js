// Runs before the page is drawn for the first time, and before anything else is loaded.

// A chosen theme does not flash in the other one's colours. The key is that of src/shell/theme.ts.
const chosen = localStorage.getItem('fairlead-theme')
if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen

// A part of the page that did not arrive is loaded again: the network has changed, or the server is away. Without a script there is
// nothing on the page yet, and all of it is loaded again. A page without its style may be in use already, and stays; its style is
// asked for again soon, because the network changes for a moment only.
addEventListener(
  'error',
  ({ target }) => {
    const isFirst = document.readyState !== 'complete'
    if (target instanceof HTMLScriptElement && isFirst) setTimeout(() => location.reload(), 2_000)
    const isStyle = target instanceof HTMLLinkElement && target.rel === 'stylesheet'
    if (!isStyle || !(isFirst || 'again' in target.dataset)) return
    const again = target.cloneNode()
    again.dataset.again = ''
    setTimeout(() => target.replaceWith(again), isFirst ? 100 : 2_000)
  },
  true,
)

// The heading names the page that is being loaded, from its address, until the application is there. Pages without the frame of
// signed-in users begin empty.
const heading = new MutationObserver(() => {
  const element = document.querySelector('#root h1')
  if (element === null) return
  heading.disconnect()
  const parts = location.pathname.split('/').filter((part) => part !== '')
  const last = parts.at(-1) ?? 'projects'
  const isOne = /^[a-z]+_\w{26}$/.test(last)
  const name = (isOne ? (parts.at(-2) ?? '').replace(/s$/, '') : last).replaceAll('-', ' ')
  if (/^(sign-in|setup|device)$/.test(parts[0] ?? '')) document.getElementById('root').replaceChildren()
  else element.textContent = `${name.charAt(0).toUpperCase()}${name.slice(1)}`
})
heading.observe(document, { childList: true, subtree: true })

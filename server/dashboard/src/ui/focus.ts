/** Moves the focus to the heading of the page when the focused element is gone. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>('main h1')?.focus()
}

/**
 * Moves the focus to an element, for example to the focused element before a dialog. When that element is gone, or
 * disappears while it has the focus, the heading of the page gets the focus: the row of a deleted item stays until the
 * list has loaded again.
 */
export function focusOrHeading(element: HTMLElement | null): void {
  if (element === null || element === document.body || !element.isConnected) {
    focusHeading()
    return
  }
  element.focus()
  const observer = new MutationObserver(() => {
    if (document.activeElement === element) return
    observer.disconnect()
    if (!element.isConnected && document.activeElement === document.body) focusHeading()
  })
  observer.observe(document.body, { childList: true, subtree: true })
}

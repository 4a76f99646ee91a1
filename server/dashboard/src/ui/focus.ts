/** Moves the focus to the heading of the page, for when the focused element is gone. */
export function focusHeading(): void {
  document.querySelector<HTMLElement>('main h1')?.focus()
}

/**
 * Moves the focus to an element, such as the one that had it before a dialog, and on to the heading of the page where the element is
 * gone, or goes while it has the focus: the row of something that was deleted stays until the list has come anew.
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

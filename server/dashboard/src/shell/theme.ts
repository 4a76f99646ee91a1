export type Theme = 'system' | 'light' | 'dark'

const key = 'fairlead-theme'

/** Returns the theme that the user has chosen in this browser. */
export function chosenTheme(): Theme {
  const stored = localStorage.getItem(key)
  return stored === 'light' || stored === 'dark' ? stored : 'system'
}

/** Applies a theme and stores it for the next visit. */
export function applyTheme(theme: Theme): void {
  if (theme === 'system') {
    localStorage.removeItem(key)
    delete document.documentElement.dataset['theme']
  } else {
    localStorage.setItem(key, theme)
    document.documentElement.dataset['theme'] = theme
  }
}

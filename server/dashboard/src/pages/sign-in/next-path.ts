/**
 * Returns the page to show after signing in. Only a path on this origin is allowed, or a crafted link could send users
 * to another site.
 */
export function pathAfterSignIn(next: string | undefined): string {
  return next?.startsWith('/') && !next.startsWith('//') ? next : '/projects'
}

export function SignedIn() {
  return null
}

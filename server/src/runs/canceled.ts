/** The reason of a signal that ends a command for good. */
export class Canceled extends Error {
  override readonly name = 'Canceled'
}

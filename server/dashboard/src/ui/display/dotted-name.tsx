/** The name of an event or an operation. It may break after its dot, where the screen is narrow. */
export function DottedName({ name }: { readonly name: string }) {
  const [kind, verb] = name.split('.')
  return (
    <>
      {kind}
      {verb !== undefined && (
        <>
          .<wbr />
          {verb}
        </>
      )}
    </>
  )
}

/** The name of an event or operation, such as `deployment.failed`. Narrow screens may break the line after the dot. */
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

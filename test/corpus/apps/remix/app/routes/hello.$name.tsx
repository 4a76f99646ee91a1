import type { LoaderFunctionArgs } from '@remix-run/node'
import { useLoaderData } from '@remix-run/react'

export const loader = ({ params }: LoaderFunctionArgs) => ({ greeting: `Hello, ${params.name}` })

export default function Hello() {
  const { greeting } = useLoaderData<typeof loader>()
  return <p>{greeting}</p>
}

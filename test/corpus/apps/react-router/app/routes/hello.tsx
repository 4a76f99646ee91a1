import { useLoaderData } from 'react-router'

export async function loader({ params }: { params: { name?: string } }) {
  return { greeting: `Hello, ${params.name}` }
}

export default function Hello() {
  const { greeting } = useLoaderData<typeof loader>()
  return <p>{greeting}</p>
}

import * as React from "react"

const IndexPage = () => <main><h1>Congratulations, you made a Gatsby site</h1></main>

export default IndexPage

export const Head = () => <title>Home Page</title>

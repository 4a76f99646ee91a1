const HtmlWebpackPlugin = require('html-webpack-plugin')

module.exports = {
  entry: './src/index.js',
  plugins: [new HtmlWebpackPlugin({ title: 'Output Management' })],
  output: { filename: '[name].[contenthash].js', clean: true },
  devServer: { historyApiFallback: true },
}

"""Tables in files: columns of rows, whoever wrote them, in whatever format.

Files come from strangers. Whatever is wrong with one is said in a single line (`InvalidInput`) that
names rows, lines and columns but never their content, which may be labels. Nothing is ever mapped
into memory, since a file that shrinks under a mapping kills the process.
"""

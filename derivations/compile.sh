#!/usr/bin/env bash
# LaTeX sources -> PDF with Debian's texlive-latex-recommended: compile.sh [FOLDER] [NAMES]
set -euo pipefail
folder=${1:-build/derivations}
shift || true
command -v pdflatex > /dev/null || { echo "pdflatex is missing: apt-get install texlive-latex-recommended" >&2; exit 2; }
cd "$folder"
[ $# -gt 0 ] || set -- $(ls ./*.tex | sed 's|^\./||; s|\.tex$||')
for name in "$@"; do
    # Twice, for the references of hyperref.
    for _ in 1 2; do
        pdflatex -halt-on-error -interaction=nonstopmode "$name.tex" > "$name.out.txt" 2>&1 \
            || { tail -n 30 "$name.out.txt" >&2; echo "$name: FAILED" >&2; exit 1; }
    done
    echo "$name.pdf"
done

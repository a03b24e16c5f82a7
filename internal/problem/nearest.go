package problem

// Nearest is the candidate that word is most likely a misspelling of, or "":
// one that differs in at most two places, and in fewer than a third of them.
func Nearest(name string, candidates []string) string {
	best, nearest := min(2, len(name)/3), ""
	for _, candidate := range candidates {
		if d := distance(name, candidate); d <= best && (nearest == "" || d < best || candidate < nearest) {
			best, nearest = d, candidate
		}
	}
	return nearest
}

// distance is how many bytes have to be added, dropped or changed to make b of
// a (Levenshtein), row by row.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
